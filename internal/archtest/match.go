package archtest

import (
	"path"
	"slices"
	"strings"
)

// match reports whether a package path relative to the module fits a pattern. A segment of the
// pattern is a glob for one segment of the path; a last segment "..." stands for any number of
// segments, none included.
func match(pattern, pkg string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(pkg, "/")
	for i, segment := range want {
		if segment == "..." {
			return true
		}
		if i >= len(have) {
			return false
		}
		if ok, err := path.Match(segment, have[i]); err != nil || !ok {
			return false
		}
	}
	return len(want) == len(have)
}

func matchAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, pkg) })
}
