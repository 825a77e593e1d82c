package route53

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/aws"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// Delegation says what makes a hosted zone active.
type Delegation string

// The delegation modes.
const (
	// DelegationTrust makes the first hosted zone of a name active at once.
	DelegationTrust Delegation = "trust"
	// DelegationBase waits until the platform's base zone delegates the name.
	DelegationBase Delegation = "base"
	// DelegationPublic waits until the servers of the public parent zone delegate the name to this
	// cluster.
	DelegationPublic Delegation = "public"
)

// Defaults of Deps.
const (
	// DefaultMaxZones is AWS's quota of hosted zones per account.
	DefaultMaxZones = 500
	// DefaultMaxZoneBytes keeps a zone, as a record and as a zone object, below NATS's default limit
	// of one message, 1 MiB.
	DefaultMaxZoneBytes = 900 << 10
)

// Deps is what a Service needs from the process. The fields of the loops (Zones to Parents) may be
// left out of one that only serves the API.
type Deps struct {
	// Bucket is the open bucket of name Bucket; required.
	Bucket *kvstore.Bucket
	// Servers is dnsapi.ServersBucket, read for GetChange; required.
	Servers *kvstore.Bucket
	// NameServers are the names of the cluster's DNS servers, such as "ns1.cloud.example.": the
	// delegation set of every hosted zone. The first is the primary in the SOA; required.
	NameServers []string
	// Hostmaster is the mailbox of the SOA as a domain name; default "hostmaster." and the name of
	// the first name server without its first label.
	Hostmaster string
	// Reserved are the names of the platform's own zones. No hosted zone may have one; with
	// DelegationTrust none may lie below one either, because it would be active at once.
	Reserved []string
	// Delegation is the mode; default DelegationTrust.
	Delegation Delegation
	// MaxZones is how many hosted zones an account may have; default DefaultMaxZones.
	MaxZones int
	// MaxZoneBytes bounds the stored form of one hosted zone; default DefaultMaxZoneBytes.
	MaxZoneBytes int
	// Answer asks a DNS server of this cluster, without recursion, for TestDNSAnswer. zone and name
	// are absolute, in the format of zone files; rcode is the mnemonic ("NOERROR"), data the RDATA of
	// the answer section in the same format, nameserver the name of the server that answered. The
	// composition root gives a query to the node's own server. Without it TestDNSAnswer answers
	// InvalidInput.
	Answer func(ctx context.Context, zone, name, typ string) (rcode string, data []string, nameserver string, err error)

	// Zones reads the published zones; required by the realizer.
	Zones dnsapi.ZoneReader
	// ZoneWriter stamps the zones' bucket for one acquisition of RealizeLease and returns the writer
	// of class Hosted; required by the realizer.
	ZoneWriter func(ctx context.Context, tok kvsync.Token) (dnsapi.ZoneWriter, error)
	// RealizeLease and VerifyLease are those of lease.go; each is required by its loop.
	RealizeLease, VerifyLease *kvsync.Lease
	// PlatformDelegation answers the name servers that the platform's base zone names for a zone,
	// none when it does not delegate it; required by the verifier with DelegationBase.
	PlatformDelegation func(ctx context.Context, zone string) ([]string, error)
	// Parents asks the public parent of a zone; required by the verifier with DelegationPublic.
	// NewParents makes the one that asks the DNS.
	Parents Parents
	// Log receives what the loops do; nil discards it.
	Log *slog.Logger
	// Observe is told of every pass of a loop, by its lease key, for metrics; nil is fine.
	Observe func(loop string, err error, took time.Duration)
}

func (d Deps) withDefaults() Deps {
	if d.Delegation == "" {
		d.Delegation = DelegationTrust
	}
	if d.MaxZones == 0 {
		d.MaxZones = DefaultMaxZones
	}
	if d.MaxZoneBytes == 0 {
		d.MaxZoneBytes = DefaultMaxZoneBytes
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return d
}

// normalise checks the values and brings names to their canonical form.
func (d *Deps) normalise() error {
	if d.Bucket == nil || d.Servers == nil {
		return errors.New("route53: Bucket and Servers are required")
	}
	if !slices.Contains([]Delegation{DelegationTrust, DelegationBase, DelegationPublic}, d.Delegation) {
		return fmt.Errorf("route53: delegation %q is not one of trust, base, public", d.Delegation)
	}
	if len(d.NameServers) == 0 {
		return errors.New("route53: no NameServers")
	}
	if d.MaxZones < 0 || d.MaxZoneBytes < 0 {
		return errors.New("route53: MaxZones and MaxZoneBytes must not be negative")
	}
	canonical := func(names []string) ([]string, error) {
		out := make([]string, 0, len(names))
		for _, n := range names {
			c, p := canonicalName(n)
			if p != nil {
				return nil, fmt.Errorf("route53: name %q: %s", n, p)
			}
			out = append(out, c)
		}
		return out, nil
	}
	var err error
	if d.NameServers, err = canonical(d.NameServers); err != nil {
		return err
	}
	if d.Reserved, err = canonical(d.Reserved); err != nil {
		return err
	}
	if d.Hostmaster == "" {
		d.Hostmaster = hostmasterOf(d.NameServers[0])
	}
	host, err := canonical([]string{d.Hostmaster})
	if err != nil {
		return err
	}
	d.Hostmaster = host[0]
	return nil
}

// hostmasterOf is the default mailbox beside a name server.
func hostmasterOf(server string) string {
	n, p := parseName(server)
	if p != nil || len(n) < 2 {
		return "hostmaster."
	}
	return "hostmaster." + n[1:].canonical()
}

// Service carries out the operations of Route 53 and runs its loops. It is safe for concurrent use.
type Service struct {
	deps        Deps
	zones       *kvstore.Store[zoneRecord]
	callers     *kvstore.Store[callerRecord]
	changes     *kvstore.Store[changeRecord]
	statuses    *kvstore.Store[statusRecord]
	delegations *kvstore.Store[delegationRecord]
	accounts    *kvstore.Store[accountRecord]
	turns       turns
}

// New makes a Service. It does no I/O and panics on a wiring error, as kvsync does: a required field
// that is missing, a name that is none. Values that people configure have been checked before.
func New(d Deps) *Service {
	d = d.withDefaults()
	d.NameServers, d.Reserved = slices.Clone(d.NameServers), slices.Clone(d.Reserved)
	if err := d.normalise(); err != nil {
		panic(err)
	}
	return &Service{
		deps:        d,
		zones:       kvstore.NewStore[zoneRecord](d.Bucket, recordVersion),
		callers:     kvstore.NewStore[callerRecord](d.Bucket, recordVersion),
		changes:     kvstore.NewStore[changeRecord](d.Bucket, recordVersion),
		statuses:    kvstore.NewStore[statusRecord](d.Bucket, recordVersion),
		delegations: kvstore.NewStore[delegationRecord](d.Bucket, recordVersion),
		accounts:    kvstore.NewStore[accountRecord](d.Bucket, recordVersion),
		turns:       newTurns(),
	}
}

// Operations is the table of the operations. With a nil Service it is the metadata alone.
func Operations(s *Service) []aws.Operation {
	const (
		reads  = false
		writes = true
	)
	svc := api.Service
	return []aws.Operation{
		aws.NewOperation(svc, api.OpCreateHostedZone, writes, nil, s.CreateHostedZone),
		aws.NewOperation(svc, api.OpGetHostedZone, reads, zoneOf(func(in *api.GetHostedZoneRequest) *string { return in.Id }), s.GetHostedZone),
		aws.NewOperation(svc, api.OpListHostedZones, reads, nil, s.ListHostedZones),
		aws.NewOperation(svc, api.OpListHostedZonesByName, reads, nil, s.ListHostedZonesByName),
		aws.NewOperation(svc, api.OpGetHostedZoneCount, reads, nil, s.GetHostedZoneCount),
		aws.NewOperation(svc, api.OpUpdateHostedZoneComment, writes, zoneOf(func(in *api.UpdateHostedZoneCommentRequest) *string { return in.Id }), s.UpdateHostedZoneComment),
		aws.NewOperation(svc, api.OpDeleteHostedZone, writes, zoneOf(func(in *api.DeleteHostedZoneRequest) *string { return in.Id }), s.DeleteHostedZone),
		aws.NewOperation(svc, api.OpChangeResourceRecordSets, writes, zoneOf(func(in *api.ChangeResourceRecordSetsRequest) *string { return in.HostedZoneId }), s.ChangeResourceRecordSets),
		aws.NewOperation(svc, api.OpListResourceRecordSets, reads, zoneOf(func(in *api.ListResourceRecordSetsRequest) *string { return in.HostedZoneId }), s.ListResourceRecordSets),
		aws.NewOperation(svc, api.OpGetChange, reads, func(_ *aws.Call, in *api.GetChangeRequest) []string {
			return arns("change", changePrefix, value(in.Id))
		}, s.GetChange),
		aws.NewOperation(svc, api.OpChangeTagsForResource, writes, func(_ *aws.Call, in *api.ChangeTagsForResourceRequest) []string {
			return taggedARNs(in.ResourceType, value(in.ResourceId))
		}, s.ChangeTagsForResource),
		aws.NewOperation(svc, api.OpListTagsForResource, reads, func(_ *aws.Call, in *api.ListTagsForResourceRequest) []string {
			return taggedARNs(in.ResourceType, value(in.ResourceId))
		}, s.ListTagsForResource),
		aws.NewOperation(svc, api.OpListTagsForResources, reads, func(_ *aws.Call, in *api.ListTagsForResourcesRequest) []string {
			return taggedARNs(in.ResourceType, in.ResourceIds...)
		}, s.ListTagsForResources),
		aws.NewOperation(svc, api.OpTestDNSAnswer, reads, zoneOf(func(in *api.TestDNSAnswerRequest) *string { return in.HostedZoneId }), s.TestDNSAnswer),
		aws.NewOperation(svc, api.OpGetDNSSEC, reads, zoneOf(func(in *api.GetDNSSECRequest) *string { return in.HostedZoneId }), s.GetDNSSEC),
	}
}

// arns are the ARNs of resources of a kind, given by id with or without the prefix. One that cannot
// be an id gives none and is refused by the handler.
func arns(kind, prefix string, ids ...string) []string {
	var out []string
	for _, id := range ids {
		if bare, ok := bareID(id, prefix); ok {
			out = append(out, aws.ARN{Service: api.Service, Resource: kind + "/" + bare}.String())
		}
	}
	return out
}

// zoneOf makes the Resources function of an operation on one hosted zone.
func zoneOf[In any](id func(*In) *string) func(*aws.Call, *In) []string {
	return func(_ *aws.Call, in *In) []string { return arns("hostedzone", zonePrefix, value(id(in))) }
}

func taggedARNs(kind *string, ids ...string) []string {
	return arns(value(kind), "/"+value(kind)+"/", ids...)
}
