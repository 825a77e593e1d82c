package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/mulgadc/spinifex/domains/dns"
	"github.com/mulgadc/spinifex/domains/route53"
	"github.com/mulgadc/spinifex/foundation/lifecycle/election"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/runtime/node"
)

// daemonLocks are all leases of a process; nil are those of roles that it does not run. A key that two
// of them had would panic when they are made.
type daemonLocks struct {
	// dns is for the one writer of the platform's zones: the drift reconcile and delegations.
	dns *kvsync.Lease
	// route53Realize is for publishing hosted zones, route53Verify for checking delegations.
	route53Realize, route53Verify *kvsync.Lease
}

// newDaemonLocks builds the leases of the roles that a process runs, once. holders are "<node>/<role>".
func newDaemonLocks(store kvsync.KVStore, nodeName string, roles []node.Role, ttl time.Duration) *daemonLocks {
	locks := &daemonLocks{}
	if slices.Contains(roles, node.RoleDaemon) {
		holder := holderName(nodeName, node.RoleDaemon)
		locks.dns = dns.NewReconcileLease(store, holder, election.WithTTL(ttl))
		locks.route53Realize = route53.NewRealizeLease(store, holder, election.WithTTL(ttl))
		locks.route53Verify = route53.NewVerifyLease(store, holder, election.WithTTL(ttl))
	}
	return locks
}

func holderName(nodeName string, role node.Role) string { return nodeName + "/" + string(role) }

// all returns the leases that were built.
func (l *daemonLocks) all() []*kvsync.Lease {
	return slices.DeleteFunc([]*kvsync.Lease{l.dns, l.route53Realize, l.route53Verify},
		func(lease *kvsync.Lease) bool { return lease == nil })
}

// release gives up what is still held. It must be called only when the work under the leases has
// stopped; normally each loop has released its own by then.
func (l *daemonLocks) release(ctx context.Context, log *slog.Logger) {
	for _, lease := range l.all() {
		if tok, held := lease.Token(); held {
			log.Warn("lease was still held after its work had stopped", "lease", lease.Key(), "generation", tok.Generation)
			lease.Unlock(ctx, tok)
		}
	}
}
