package dns

import (
	"github.com/mulgadc/spinifex/foundation/lifecycle/election"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// ReconcileLeaseKey elects the one writer of the platform's zones: the drift reconcile and Delegate share it.
const ReconcileLeaseKey = "dns.reconcile"

// NewReconcileLease makes the lease of Service. holder is "<node>/<role>". A process makes it once.
func NewReconcileLease(store kvsync.KVStore, holder string, opts ...election.Option) *kvsync.Lease {
	return election.NewLeaderLease(store, ReconcileLeaseKey, holder, opts...)
}
