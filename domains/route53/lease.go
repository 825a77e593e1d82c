package route53

import (
	"github.com/mulgadc/spinifex/foundation/lifecycle/election"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// Keys of this domain in the sync bucket.
const (
	// RealizeLeaseKey elects the one publisher of hosted zones.
	RealizeLeaseKey = "route53.realize"
	// VerifyLeaseKey elects the one that asks parents about delegations.
	VerifyLeaseKey = "route53.verify"
)

// NewRealizeLease makes the lease of RunRealizer. holder is "<node>/<role>". A process makes it once.
func NewRealizeLease(store kvsync.KVStore, holder string, opts ...election.Option) *kvsync.Lease {
	return election.NewLeaderLease(store, RealizeLeaseKey, holder, opts...)
}

// NewVerifyLease makes the lease of RunVerifier. holder is "<node>/<role>". A process makes it once.
func NewVerifyLease(store kvsync.KVStore, holder string, opts ...election.Option) *kvsync.Lease {
	return election.NewLeaderLease(store, VerifyLeaseKey, holder, opts...)
}
