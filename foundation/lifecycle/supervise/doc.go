// Package supervise keeps a long-running function running: an error, a panic or a return that nobody
// asked for restarts it with back-off, is logged with its stack and reported, so that no loop of a
// node ends silently and none takes the process with it.
//
//	err := supervise.Run(ctx, supervise.Options{Name: "route53.realizer", Log: log}, svc.RunRealizer)
//
// # Concurrency
//
// Run calls fn on a goroutine of its own and waits for it: when Run has returned, fn has returned.
// A function that ignores the end of its context therefore keeps Run waiting; that is on purpose,
// because a lease must not be released while the work under it goes on.
package supervise
