package wire

import (
	"regexp"
	"slices"
	"strings"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// bodyName returns the name that a structure's member has in a body. A flattened list has no
// element of its own; its elements carry the list's name, or else the name of the list's member.
func bodyName(name string, m *models.Ref) string {
	if m.LocationName != "" {
		return m.LocationName
	}
	if m.Shape.Type == "list" && m.Flattened && m.Shape.Member.LocationName != "" {
		return m.Shape.Member.LocationName
	}
	return name
}

// indexMembers maps, for each structure, the names in a body to the members.
func indexMembers(m *models.Service) map[*models.Shape]map[string]string {
	index := make(map[*models.Shape]map[string]string)
	for _, sh := range m.Shapes {
		if sh.Type != "structure" {
			continue
		}
		names := make(map[string]string, len(sh.Members))
		for name, r := range sh.Members {
			if r.Location == "" {
				names[bodyName(name, r)] = name
			}
		}
		index[sh] = names
	}
	return index
}

// compilePatterns compiles the patterns of all strings, each bound to the whole value as AWS does.
// skipped has the shapes whose pattern Go's regular expressions cannot say, sorted.
func compilePatterns(m *models.Service) (compiled map[*models.Shape]*regexp.Regexp, skipped []string) {
	javaUnicode := regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)
	compiled = make(map[*models.Shape]*regexp.Regexp)
	for name, sh := range m.Shapes {
		if sh.Type != "string" || sh.Pattern == "" {
			continue
		}
		re, err := regexp.Compile(`^(?:` + goPattern(javaUnicode, sh.Pattern) + `)$`)
		if err != nil {
			skipped = append(skipped, name)
			continue
		}
		compiled[sh] = re
	}
	slices.Sort(skipped)
	return compiled, skipped
}

// goPattern spells a Java pattern in Go's syntax, for the escapes that the models use.
func goPattern(javaUnicode *regexp.Regexp, p string) string {
	p = strings.ReplaceAll(p, `\p{ASCII}`, `[\x00-\x7F]`)
	return javaUnicode.ReplaceAllString(p, `\x{$1}`)
}

// isRequired reports whether a structure requires the member.
func isRequired(sh *models.Shape, member string) bool { return slices.Contains(sh.Required, member) }
