package route53

import (
	"context"
	"hash/maphash"
)

// turns lets the writers of one hosted zone within this process take turns. It saves the work of
// losing races with oneself; between processes, and for safety, the compare-and-swap decides.
type turns struct {
	seed  maphash.Seed
	slots []chan struct{}
}

// turnSlots is how many zones can be written at once; two zones may share a slot.
const turnSlots = 64

func newTurns() turns {
	t := turns{seed: maphash.MakeSeed(), slots: make([]chan struct{}, turnSlots)}
	for i := range t.slots {
		t.slots[i] = make(chan struct{}, 1)
	}
	return t
}

// take waits for the turn of key and returns what gives it up; ctx's cause when it ends first.
func (t *turns) take(ctx context.Context, key string) (release func(), err error) {
	slot := t.slots[maphash.String(t.seed, key)%turnSlots]
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
