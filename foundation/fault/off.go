//go:build !fault || !linux

package fault

import "context"

// Point does nothing in a build without the tag fault.
func Point(context.Context, string) {}
