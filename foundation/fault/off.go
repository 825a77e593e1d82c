//go:build !fault || !linux

package fault

import "context"

// Point returns ctx in a build without the tag fault.
func Point(ctx context.Context, _ string) context.Context { return ctx }
