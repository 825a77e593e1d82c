package wire

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// mostFindings bounds how many faults one answer names; the rest are counted.
const mostFindings = 100

// validator collects what does not fit the model, in AWS's words.
type validator struct {
	s        *Service
	findings []string
	count    int
}

// validate checks an input against its shape: presence, types, values, bounds and patterns. It
// names every fault, as AWS does, in one error.
func (s *Service) validate(sh *models.Shape, in map[string]any) error {
	v := &validator{s: s}
	v.structure(sh, in, "")
	if v.count == 0 {
		return nil
	}
	noun := "errors"
	if v.count == 1 {
		noun = "error"
	}
	message := fmt.Sprintf("%d validation %s detected: %s", v.count, noun, strings.Join(v.findings, "; "))
	return &aws.Error{Code: s.faults.validation, Message: message, Status: http.StatusBadRequest}
}

// fail notes that the value at a path does not satisfy a constraint. value is how the value is
// quoted: "null", "'text'" or "" where it is not to be shown.
func (v *validator) fail(path, value, constraint string) {
	v.count++
	if len(v.findings) >= mostFindings {
		return
	}
	if value != "" {
		value += " "
	}
	v.findings = append(v.findings, fmt.Sprintf("Value %sat '%s' failed to satisfy constraint: Member must %s", value, path, constraint))
}

func (v *validator) structure(sh *models.Shape, in map[string]any, path string) {
	for _, name := range sh.MemberNames {
		value, ok := in[name]
		at := join(path, memberPath(name))
		switch {
		case ok:
			v.value(sh.Members[name].Shape, value, at)
		case isRequired(sh, name):
			v.fail(at, "null", "not be null")
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// memberPath spells a member as AWS's messages do: with a small first letter.
func memberPath(name string) string {
	r, n := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(r)) + name[n:]
}

func (v *validator) value(sh *models.Shape, value any, path string) {
	switch value := value.(type) {
	case unreadable:
		v.fail(path, quote(sh, value.text), "be "+value.want)
	case map[string]any:
		if sh.Type == "structure" {
			v.structure(sh, value, path)
			return
		}
		v.size(sh, len(value), quoteMany(sh, nil), path)
		for _, k := range slices.Sorted(maps.Keys(value)) {
			v.value(sh.Key.Shape, k, path+".key")
			v.value(sh.Value.Shape, value[k], join(path, clip(k))+".member")
		}
	case []any:
		v.size(sh, len(value), quoteMany(sh, value), path)
		for i, e := range value {
			v.value(sh.Member.Shape, e, path+"."+strconv.Itoa(i+1)+".member")
		}
	case string:
		v.text(sh, value, path)
	case []byte:
		v.size(sh, len(value), "", path)
	case int64:
		v.number(sh, float64(value), strconv.FormatInt(value, 10), path)
	case float64:
		v.number(sh, value, formatFloat(sh, value), path)
	}
}

// quote shows a client its own value, unless it is a secret.
func quote(sh *models.Shape, text string) string {
	const most = 256
	if sh.Sensitive {
		return ""
	}
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "..."
	}
	return "'" + text + "'"
}

// quoteMany shows a list of a few texts.
func quoteMany(sh *models.Shape, list []any) string {
	if sh.Type != "list" || sh.Member.Shape.Type != "string" || sh.Member.Shape.Sensitive {
		return ""
	}
	texts := make([]string, len(list))
	for i, e := range list {
		texts[i], _ = e.(string)
	}
	return quote(sh, "["+strings.Join(texts, ", ")+"]")
}

// size checks the number of elements or bytes.
func (v *validator) size(sh *models.Shape, n int, shown, path string) {
	if sh.Min != nil && float64(n) < *sh.Min {
		v.fail(path, shown, "have length greater than or equal to "+bound(*sh.Min))
	}
	if sh.Max != nil && float64(n) > *sh.Max {
		v.fail(path, shown, "have length less than or equal to "+bound(*sh.Max))
	}
}

func (v *validator) text(sh *models.Shape, text, path string) {
	if len(sh.Enum) > 0 && !slices.Contains(sh.Enum, text) {
		v.fail(path, quote(sh, text), "satisfy enum value set: ["+strings.Join(sh.Enum, ", ")+"]")
	}
	v.size(sh, utf8.RuneCountInString(text), quote(sh, text), path)
	if re := v.s.patterns[sh]; re != nil && !re.MatchString(text) {
		v.fail(path, quote(sh, text), "satisfy regular expression pattern: "+sh.Pattern)
	}
}

func (v *validator) number(sh *models.Shape, f float64, shown, path string) {
	if sh.Min != nil && (f < *sh.Min || math.IsNaN(f)) {
		v.fail(path, "'"+shown+"'", "have value greater than or equal to "+bound(*sh.Min))
	}
	if sh.Max != nil && f > *sh.Max {
		v.fail(path, "'"+shown+"'", "have value less than or equal to "+bound(*sh.Max))
	}
}

func bound(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
