// Package reconciler is the loop of every controller: it calls a pass at once, when it is woken, when
// the pass asked to come back, and at the latest after a resync period, until its context ends.
//
//	wake, woken := reconciler.NewWake()       // the watch calls wake, never says what changed
//	loop := reconciler.New(reconciler.Options{Name: "dns.drift", Wake: woken, Debounce: 200 * time.Millisecond}, pass)
//	err := loop.Run(ctx)
//
// A pass is level-triggered: it reads the records and not the event that woke it. It answers with a
// triple: done, come back after Result.Revisit, or an error, which is retried with back-off here and
// never inside the pass. Two kinds of fault end Run, because the loop cannot heal them: an error marked
// with Terminal, and a pass that exceeded Options.PassTimeout (ErrPassTimeout). Under a lease the end
// of Run gives leadership up, so that a healthy node takes over; under supervise it is a restart.
//
// # Concurrency
//
// One pass runs at a time. Wakes are coalesced, also those that arrive during a pass: one more pass
// follows. When Run has returned, no pass is running.
package reconciler
