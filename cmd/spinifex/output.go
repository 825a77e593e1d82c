package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// print writes a result: as JSON, or by the function as text.
func (a *app) print(value any, text func(w io.Writer)) error {
	if a.output == "json" {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		return failed(encoder.Encode(value))
	}
	text(a.stdout)
	return nil
}

// table writes aligned columns; the first row is the heading.
func table(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // a reader that has gone away is told to nobody
}

// millis shows milliseconds as seconds with one decimal below a minute.
func millis(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
