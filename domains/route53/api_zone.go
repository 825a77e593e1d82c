package route53

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/aws"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

const (
	maxReference = 128 // characters of a caller reference
	maxComment   = 256
	maxZonesPage = 100
)

// locationRoot is where AWS's Location header of a hosted zone points, whatever endpoint was asked.
const locationRoot = "https://route53.amazonaws.com/2013-04-01"

// CreateHostedZone makes a public hosted zone with its SOA and NS record sets. The caller reference
// names the request: a second one is HostedZoneAlreadyExists, except when the first one was cut off
// by a crash; then it is finished.
func (s *Service) CreateHostedZone(ctx context.Context, call *aws.Call, in *api.CreateHostedZoneRequest) (*api.CreateHostedZoneResponse, error) {
	name, err := s.checkNewZone(in)
	if err != nil {
		return nil, err
	}
	zones, err := s.listZones(ctx, call.Account)
	if err != nil {
		return nil, err
	}
	if len(zones) >= s.deps.MaxZones {
		return nil, aws.Errorf(api.CodeTooManyHostedZones, "The account has reached the limit of %d hosted zones.", s.deps.MaxZones)
	}
	z := &zoneRecord{
		Account: call.Account, Name: name, CallerReference: *in.CallerReference,
		Comment: value(value(in.HostedZoneConfig).Comment), NameServers: s.deps.NameServers,
		Created: time.Now().UTC().Truncate(time.Millisecond),
	}
	z.Serial = dnsapi.NextSerial(0, z.Created)
	z.RecordSets = s.apexRecords(name)
	if _, err := s.accounts.Create(ctx, accountKey(call.Account), &accountRecord{}); err != nil && !errors.Is(err, kvstore.ErrConflict) {
		return nil, storeError("index account", accountKey(call.Account), err)
	}
	if z.ID, err = s.claimReference(ctx, call.Account, z.CallerReference); err != nil {
		return nil, err
	}
	info, err := s.storeNewZone(ctx, z)
	if err != nil {
		return nil, err
	}
	return &api.CreateHostedZoneResponse{
		HostedZone: hostedZone(z), DelegationSet: delegationSet(z), ChangeInfo: info,
		Location: new(locationRoot + zonePrefix + z.ID),
	}, nil
}

// checkNewZone returns the canonical name of the zone asked for.
func (s *Service) checkNewZone(in *api.CreateHostedZoneRequest) (string, error) {
	config := value(in.HostedZoneConfig)
	switch ref := value(in.CallerReference); {
	case in.Name == nil:
		return "", invalidInput("Name is required")
	case ref == "" || runes(ref) > maxReference:
		return "", invalidInput("CallerReference must have 1 to %d characters", maxReference)
	case runes(value(config.Comment)) > maxComment:
		return "", invalidInput("Comment must not have more than %d characters", maxComment)
	case in.VPC != nil:
		return "", unsupported("VPC", "private hosted zones")
	case value(config.PrivateZone):
		return "", unsupported("PrivateZone", "private hosted zones")
	case in.DelegationSetId != nil:
		return "", unsupported("DelegationSetId", "reusable delegation sets")
	}
	name, p := zoneName(*in.Name)
	if p != nil {
		return "", aws.Errorf(api.CodeInvalidDomainName, "%s", p)
	}
	if s.reserved(name) {
		return "", aws.Errorf(api.CodeInvalidDomainName, "%s is reserved by the platform", name)
	}
	return name, nil
}

// reserved reports whether no hosted zone may be made under this name.
func (s *Service) reserved(name string) bool {
	return slices.ContainsFunc(s.deps.Reserved, func(r string) bool {
		return name == r || s.deps.Delegation == DelegationTrust && inZone(name, r)
	})
}

// apexRecords are the record sets of a new zone. The serial in the SOA stands as AWS has it; DNS
// servers answer with the zone's own.
func (s *Service) apexRecords(name string) []recordSet {
	sets := []recordSet{
		{Name: name, Type: typeNS, TTL: new(int64(172800)), Values: s.deps.NameServers},
		{
			Name: name, Type: typeSOA, TTL: new(int64(900)),
			Values: []string{s.deps.NameServers[0] + " " + s.deps.Hostmaster + " 1 7200 900 1209600 86400"},
		},
	}
	sortSets(sets)
	return sets
}

func errReferenceUsed() *aws.Error {
	return aws.Errorf(api.CodeHostedZoneAlreadyExists, "A hosted zone has already been created with the specified caller reference.")
}

// claimReference returns the id of the zone that the caller reference is to make. It is claimed
// before the zone is written, so that a creation that crashes in between is finished, under the same
// id, by the retry, and two at once make one zone.
func (s *Service) claimReference(ctx context.Context, account, reference string) (string, error) {
	key := callerKey(account, reference)
	for {
		id := newZoneID()
		_, err := s.callers.Create(ctx, key, &callerRecord{Zone: id})
		if err == nil {
			return id, nil
		}
		if !errors.Is(err, kvstore.ErrConflict) {
			return "", storeError("claim caller reference", key, err)
		}
		claimed, rev, err := s.callers.Get(ctx, key)
		if errors.Is(err, kvstore.ErrNotFound) {
			continue // just deleted with its zone
		}
		if err != nil {
			return "", storeError("read caller reference", key, err)
		}
		_, _, err = s.zones.Get(ctx, zoneKey(account, claimed.Zone))
		switch {
		case err == nil:
			return "", errReferenceUsed()
		case !errors.Is(err, kvstore.ErrNotFound):
			return "", storeError("read hosted zone", zoneKey(account, claimed.Zone), err)
		case !claimed.Deleting:
			return claimed.Zone, nil
		}
		// The zone is gone and its deletion did not come to delete this record.
		if err := s.callers.DeleteAt(ctx, key, rev); err != nil && !errors.Is(err, kvstore.ErrConflict) {
			return "", storeError("free caller reference", key, err)
		}
	}
}

// storeNewZone writes the zone whose id has been claimed.
func (s *Service) storeNewZone(ctx context.Context, z *zoneRecord) (*api.ChangeInfo, error) {
	key := zoneKey(z.Account, z.ID)
	change, err := s.newChange(ctx, z.Account, z, "")
	if err != nil {
		return nil, err
	}
	z.addRecentChange(change.id)
	rev, err := s.zones.Create(ctx, key, z)
	if err != nil {
		stored, storedRev, gerr := s.zones.Get(ctx, key)
		switch {
		case gerr == nil && stored.hasChange(change.id): // ours, its answer was lost
			rev = storedRev
		case gerr == nil && errors.Is(err, kvstore.ErrConflict):
			return nil, errReferenceUsed()
		default:
			return nil, storeError("create hosted zone", key, err)
		}
	}
	// A creation that stalled until its zone was made and deleted by others must not bring it back.
	caller, _, err := s.callers.Get(ctx, callerKey(z.Account, z.CallerReference))
	if err == nil && caller.Zone == z.ID && !caller.Deleting {
		return change.info(api.ChangeStatusPending), nil
	}
	if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
		return nil, storeError("read caller reference", callerKey(z.Account, z.CallerReference), err)
	}
	if err := s.zones.DeleteAt(ctx, key, rev); err != nil && !errors.Is(err, kvstore.ErrConflict) {
		return nil, storeError("take back hosted zone", key, err)
	}
	return nil, errReferenceUsed()
}

// GetHostedZone answers one hosted zone with its delegation set.
func (s *Service) GetHostedZone(ctx context.Context, call *aws.Call, in *api.GetHostedZoneRequest) (*api.GetHostedZoneResponse, error) {
	z, err := s.getZone(ctx, call.Account, value(in.Id))
	if err != nil {
		return nil, err
	}
	return &api.GetHostedZoneResponse{HostedZone: hostedZone(z), DelegationSet: delegationSet(z)}, nil
}

// GetHostedZoneCount answers how many hosted zones the account has.
func (s *Service) GetHostedZoneCount(ctx context.Context, call *aws.Call, _ *api.GetHostedZoneCountRequest) (*api.GetHostedZoneCountResponse, error) {
	zones, err := s.listZones(ctx, call.Account)
	if err != nil {
		return nil, err
	}
	return &api.GetHostedZoneCountResponse{HostedZoneCount: new(int64(len(zones)))}, nil
}

// UpdateHostedZoneComment replaces the comment; none given removes it.
func (s *Service) UpdateHostedZoneComment(ctx context.Context, call *aws.Call, in *api.UpdateHostedZoneCommentRequest) (*api.UpdateHostedZoneCommentResponse, error) {
	comment := value(in.Comment)
	if runes(comment) > maxComment {
		return nil, invalidInput("Comment must not have more than %d characters", maxComment)
	}
	z, err := s.editZone(ctx, call.Account, value(in.Id), func(z *zoneRecord) error {
		if z.Comment == comment {
			return errUnchanged
		}
		z.Comment = comment
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &api.UpdateHostedZoneCommentResponse{HostedZone: hostedZone(z)}, nil
}

// DeleteHostedZone deletes a zone that has nothing but its own SOA and NS record sets. The realizer
// withdraws it from the DNS servers.
func (s *Service) DeleteHostedZone(ctx context.Context, call *aws.Call, in *api.DeleteHostedZoneRequest) (*api.DeleteHostedZoneResponse, error) {
	id, ok := bareID(value(in.Id), zonePrefix)
	if !ok {
		return nil, noSuchZone(value(in.Id))
	}
	key := zoneKey(call.Account, id)
	for {
		z, rev, err := s.zones.Get(ctx, key)
		switch {
		case errors.Is(err, kvstore.ErrNotFound):
			return nil, noSuchZone(id)
		case err != nil:
			return nil, storeError("read hosted zone", key, err)
		case !onlyApex(z.Name, z.RecordSets):
			return nil, aws.Errorf(api.CodeHostedZoneNotEmpty,
				"The specified hosted zone contains non-required resource record sets and so cannot be deleted.")
		}
		change, err := s.newChange(ctx, call.Account, z, "")
		if err != nil {
			return nil, err
		}
		err = s.deleteZone(ctx, z, rev)
		if errors.Is(err, kvstore.ErrConflict) {
			continue // changed meanwhile: it may not be empty any more
		}
		if err != nil {
			return nil, err
		}
		return &api.DeleteHostedZoneResponse{ChangeInfo: change.info(api.ChangeStatusPending)}, nil
	}
}

// deleteZone deletes the zone at revision rev. The caller reference is marked first: from then on a
// zone that is missing is deleted, and not one whose creation has to be finished.
func (s *Service) deleteZone(ctx context.Context, z *zoneRecord, rev uint64) error {
	callerKey := callerKey(z.Account, z.CallerReference)
	_, callerRev, err := s.callers.Update(ctx, callerKey, func(c *callerRecord) error {
		if c.Zone != z.ID {
			return fmt.Errorf("caller reference is of hosted zone %s, not %s", c.Zone, z.ID)
		}
		c.Deleting = true
		return nil
	})
	if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
		return storeError("mark caller reference", callerKey, err)
	}
	marked := err == nil
	if err := s.zones.DeleteAt(ctx, zoneKey(z.Account, z.ID), rev); err != nil {
		return storeError("delete hosted zone", zoneKey(z.Account, z.ID), err)
	}
	if !marked {
		return nil
	}
	// What is left when this fails is found by whoever claims the reference next.
	if err := s.callers.DeleteAt(ctx, callerKey, callerRev); err != nil && !errors.Is(err, kvstore.ErrConflict) {
		s.deps.Log.WarnContext(ctx, "caller reference not freed", "key", callerKey, "error", err)
	}
	return nil
}

// ListHostedZones answers the account's hosted zones in the order of their ids.
func (s *Service) ListHostedZones(ctx context.Context, call *aws.Call, in *api.ListHostedZonesRequest) (*api.ListHostedZonesResponse, error) {
	limit, err := pageLimit(in.MaxItems, maxZonesPage)
	if err != nil {
		return nil, err
	}
	if in.DelegationSetId != nil {
		return nil, aws.Errorf(api.CodeNoSuchDelegationSet, "No reusable delegation set found with ID: %s", clip(*in.DelegationSetId))
	}
	marker, ok := bareID(value(in.Marker), zonePrefix)
	if value(in.Marker) != "" && !ok {
		return nil, invalidInput("Marker is not the id of a hosted zone")
	}
	var zones []*zoneRecord
	// No zone of this release is private, so the list of private ones is complete when empty.
	switch kind := value(in.HostedZoneType); kind {
	case "":
		if zones, err = s.listZones(ctx, call.Account); err != nil {
			return nil, err
		}
	case api.HostedZoneTypePrivateHostedZone:
	default:
		return nil, invalidInput("HostedZoneType '%s' is not PrivateHostedZone", clip(kind))
	}
	from, _ := slices.BinarySearchFunc(zones, marker, func(z *zoneRecord, id string) int { return cmp.Compare(z.ID, id) })
	out := &api.ListHostedZonesResponse{Marker: new(value(in.Marker)), MaxItems: new(strconv.Itoa(limit))}
	var next *zoneRecord
	out.HostedZones, next = pageZones(zones[from:], limit)
	out.IsTruncated = new(next != nil)
	if next != nil {
		out.NextMarker = new(next.ID)
	}
	return out, nil
}

// ListHostedZonesByName answers the account's hosted zones in the order of their names, labels
// reversed, from DNSName and, among zones of that name, HostedZoneId on.
func (s *Service) ListHostedZonesByName(ctx context.Context, call *aws.Call, in *api.ListHostedZonesByNameRequest) (*api.ListHostedZonesByNameResponse, error) {
	limit, err := pageLimit(in.MaxItems, maxZonesPage)
	if err != nil {
		return nil, err
	}
	start := listPoint{}
	if value(in.DNSName) != "" {
		name, p := canonicalName(*in.DNSName)
		if p != nil {
			return nil, aws.Errorf(api.CodeInvalidDomainName, "%s", p)
		}
		start.order = nameOrder(name)
	}
	if value(in.HostedZoneId) != "" {
		id, ok := bareID(*in.HostedZoneId, zonePrefix)
		if !ok || start.order == "" {
			return nil, invalidInput("HostedZoneId must be the id of a hosted zone, and needs DNSName")
		}
		start.setID = id
	}
	zones, err := s.listZones(ctx, call.Account)
	if err != nil {
		return nil, err
	}
	point := func(z *zoneRecord) listPoint { return listPoint{order: nameOrder(z.Name), setID: z.ID} }
	slices.SortFunc(zones, func(a, b *zoneRecord) int { return point(a).compare(point(b)) })
	from, _ := slices.BinarySearchFunc(zones, start, func(z *zoneRecord, p listPoint) int { return point(z).compare(p) })
	out := &api.ListHostedZonesByNameResponse{
		DNSName: in.DNSName, HostedZoneId: in.HostedZoneId, MaxItems: new(strconv.Itoa(limit)),
	}
	var next *zoneRecord
	out.HostedZones, next = pageZones(zones[from:], limit)
	out.IsTruncated = new(next != nil)
	if next != nil {
		out.NextDNSName, out.NextHostedZoneId = new(next.Name), new(next.ID)
	}
	return out, nil
}

// pageZones encodes the first limit zones and returns the one after them, nil when there is none.
func pageZones(zones []*zoneRecord, limit int) ([]api.HostedZone, *zoneRecord) {
	page := make([]api.HostedZone, 0, min(limit, len(zones)))
	for i, z := range zones {
		if i == limit {
			return page, z
		}
		page = append(page, *hostedZone(z))
	}
	return page, nil
}

// pageLimit reads MaxItems. More than the largest page is the largest page, as AWS has it.
func pageLimit(maxItems *string, largest int) (int, error) {
	if maxItems == nil {
		return largest, nil
	}
	n, err := strconv.Atoi(*maxItems)
	if err != nil || n < 1 {
		return 0, invalidInput("MaxItems '%s' is not a number of at least 1", clip(*maxItems))
	}
	return min(n, largest), nil
}

// hostedZone is the zone as the API answers it.
func hostedZone(z *zoneRecord) *api.HostedZone {
	config := &api.HostedZoneConfig{PrivateZone: new(false)}
	if z.Comment != "" {
		config.Comment = new(z.Comment)
	}
	return &api.HostedZone{
		Id: new(zonePrefix + z.ID), Name: new(z.Name), CallerReference: new(z.CallerReference),
		Config: config, ResourceRecordSetCount: new(int64(len(z.RecordSets))),
	}
}

// delegationSet is the zone's name servers, written without the trailing dot as AWS does.
func delegationSet(z *zoneRecord) *api.DelegationSet {
	set := &api.DelegationSet{}
	for _, n := range z.NameServers {
		set.NameServers = append(set.NameServers, strings.TrimSuffix(n, "."))
	}
	return set
}
