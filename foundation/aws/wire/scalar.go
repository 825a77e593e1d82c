package wire

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// unreadable stands in a tree where a text is not of its member's type; validation reports it
// together with whatever else is wrong.
type unreadable struct {
	text string
	want string
}

// parseScalar reads the text of a member. format is the timestamp format of the place.
func parseScalar(sh *models.Shape, format, text string) any {
	trimmed := strings.TrimSpace(text)
	switch sh.Type {
	case "boolean":
		switch trimmed {
		case "true":
			return true
		case "false":
			return false
		}
		return unreadable{text, "true or false"}
	case "integer":
		if n, err := strconv.ParseInt(trimmed, 10, 32); err == nil {
			return n
		}
		return unreadable{text, fmt.Sprintf("a whole number from %d to %d", math.MinInt32, math.MaxInt32)}
	case "long":
		if n, err := strconv.ParseInt(trimmed, 10, 64); err == nil {
			return n
		}
		return unreadable{text, fmt.Sprintf("a whole number from %d to %d", math.MinInt64, math.MaxInt64)}
	case "float", "double":
		if f, err := strconv.ParseFloat(trimmed, 64); err == nil && !strings.ContainsAny(trimmed, "xXpP_") {
			return f
		}
		return unreadable{text, "a number"}
	case "timestamp":
		if t, ok := parseTime(format, trimmed); ok {
			return t
		}
		return unreadable{text, "a timestamp such as 2006-01-02T15:04:05Z"}
	case "blob":
		if b, err := base64.StdEncoding.DecodeString(trimmed); err == nil {
			return b
		}
		return unreadable{text, "base64 text"}
	case "character":
		if utf8.RuneCountInString(text) == 1 {
			return text
		}
		return unreadable{text, "one character"}
	}
	return text
}

// parseTime reads a timestamp in the format of its place, or in ISO 8601 whatever the place says.
func parseTime(format, text string) (time.Time, bool) {
	switch format {
	case "unixTimestamp":
		if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1e12 {
			sec, frac := math.Modf(f)
			return time.Unix(int64(sec), int64(math.Round(frac*1e3))*1e6).UTC(), true
		}
	case "rfc822":
		if t, err := http.ParseTime(text); err == nil {
			return t.UTC(), true
		}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 0 {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// formatScalar writes a scalar of a tree.
func formatScalar(sh *models.Shape, format string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return formatFloat(sh, v), nil
	case []byte:
		return base64.StdEncoding.EncodeToString(v), nil
	case time.Time:
		return formatTime(format, v), nil
	}
	return "", fmt.Errorf("%s of type %s cannot be a %T", sh.Name, sh.Type, v)
}

func formatFloat(sh *models.Shape, f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	bits := 64
	if sh.Type == "float" {
		bits = 32
	}
	return strconv.FormatFloat(f, 'f', -1, bits)
}

// formatTime writes a timestamp in UTC, with milliseconds only where it has some.
func formatTime(format string, t time.Time) string {
	t = t.UTC()
	ms := t.Nanosecond() / 1e6
	switch format {
	case "unixTimestamp":
		if ms == 0 {
			return strconv.FormatInt(t.Unix(), 10)
		}
		return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', 3, 64)
	case "rfc822":
		return t.Format(http.TimeFormat)
	}
	if ms == 0 {
		return t.Format("2006-01-02T15:04:05Z")
	}
	return t.Format("2006-01-02T15:04:05.000Z")
}
