package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Quantile returns the q-quantile, 0 to 1, of the durations; 0 when there are none.
func Quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Clone(times)
	slices.SortFunc(sorted, cmp.Compare)
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

// Median is the middle one of the durations; 0 when there are none.
func Median(times []time.Duration) time.Duration { return Quantile(times, 0.5) }

// Ratio is a over b.
func Ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

// TimesColumns are the columns of rows made by TimesRow.
func TimesColumns() []string { return []string{"operation", "count", "p50", "p99", "ratio", "to"} }

// TimesRow is a row of name, count, p50, p99, and how many times the median of base the p50 is.
func TimesRow(name string, times []time.Duration, to string, base []time.Duration) []string {
	p50 := Median(times)
	return []string{
		name, strconv.Itoa(len(times)), p50.Round(time.Microsecond).String(),
		Quantile(times, 0.99).Round(time.Microsecond).String(), fmt.Sprintf("%.2f", Ratio(p50, Median(base))), to,
	}
}
