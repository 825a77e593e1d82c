package archtest

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// banned is a word that must not stand anywhere in the project.
type banned struct {
	re *regexp.Regexp
	// goOnly limits it to Go files.
	goOnly bool
	why    string
}

// The patterns are written in pieces, so that they do not find themselves.
var bannedWords = []banned{
	{regexp.MustCompile(`/(wor` + `k|far` + `m)/`), false, "a path of one machine"},
	{regexp.MustCompile(`/tm` + `p/[a-z]`), true, "a fixed temporary path: use a directory of the test or the user"},
	{regexp.MustCompile(`\.(librar` + `y)\b`), false, "a place outside the project"},
	{regexp.MustCompile(`\.\./(share` + `d)\b`), false, "a place outside the project"},
	{regexp.MustCompile(`https?://(prox` + `y|registr` + `y|deb)\.[a-z.]+`), false, "a mirror of one network"},
	{regexp.MustCompile(`(?i)\bissu` + `e #?[0-9]+\b`), false, "a reference that only its author can follow"},
	{regexp.MustCompile(`\b(TOD` + `O|FIXM` + `E|HAC` + `K)\b`), false, "work left undone"},
}

// wordsExempt are files that others wrote.
var wordsExempt = []string{"go.sum", "tools/go.sum", "LICENSE"}

func checkWords(t *Tree) []Finding {
	var out []Finding
	for _, text := range t.Texts {
		if slices.Contains(wordsExempt, text.Path) {
			continue
		}
		for _, b := range bannedWords {
			if b.goOnly && !strings.HasSuffix(text.Path, ".go") {
				continue
			}
			if at := b.re.FindIndex(text.Content); at != nil {
				line := 1 + bytes.Count(text.Content[:at[0]], []byte("\n"))
				out = append(out, Finding{text.Path, line, "\"" + string(text.Content[at[0]:at[1]]) + "\" is " + b.why})
			}
		}
	}
	return out
}
