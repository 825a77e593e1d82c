package testkit

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer is what a program or its log has written, for a test that reads it meanwhile. The zero value
// is empty and ready for use.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String is what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Count returns how often a text was written so far.
func (b *Buffer) Count(text string) int { return strings.Count(b.String(), text) }
