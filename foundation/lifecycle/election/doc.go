// Package election turns a kvsync.Lease into "only one node does this".
//
// A loop that must run on one node at a time runs under Lead, which keeps the lease across passes:
//
//	func (s *Service) RunRealizer(ctx context.Context) error {
//		return election.Lead(ctx, s.realizeLease, s.log, func(ctx context.Context, tok kvsync.Token) error {
//			w, err := s.zoneWriter(ctx, tok)     // stamps the fence once, reads come after it
//			if err != nil {
//				return err                       // stands down, a healthy peer wins
//			}
//			return reconciler.New(opts, func(ctx context.Context) (reconciler.Result, error) {
//				return s.realizePass(ctx, w)
//			}).Run(ctx)                          // until ctx ends: lost, or the node stops
//		})
//	}
//
// ctx ends with cause kvsync.ErrLost when the leadership ends, and the key is released only after
// the work has returned. A node that does not lead looks nothing up and writes nothing. Other work
// of the same process that needs the same writer (such as dns.Delegate) meets the loop in the
// service: a mutex around the pass and the current writer, not a second acquisition of the lease.
//
// Short work that comes seldom elects per pass: ElectPass, AcquireLeader, AcquireLeaderAtStart.
package election
