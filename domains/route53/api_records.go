package route53

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/aws"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

const (
	changePrefix = "/change/"
	maxSetsPage  = 300
	// maxPageBytes bounds a page of record sets: its answer has to fit into one NATS message, which by
	// default is 1 MiB, with room for the largest set.
	maxPageBytes = 512 << 10
)

// pendingChange is a change record with its id.
type pendingChange struct {
	id string
	changeRecord
}

func (c *pendingChange) info(status string) *api.ChangeInfo {
	info := &api.ChangeInfo{Id: new(changePrefix + c.id), Status: &status, SubmittedAt: new(c.SubmittedAt)}
	if c.Comment != "" {
		info.Comment = new(c.Comment)
	}
	return info
}

// newChange writes the record of a change that is about to give the zone its serial.
func (s *Service) newChange(ctx context.Context, account string, z *zoneRecord, comment string) (*pendingChange, error) {
	c := &pendingChange{id: newChangeID(), changeRecord: changeRecord{
		Zone: z.ID, Serial: z.Serial, SubmittedAt: time.Now().UTC().Truncate(time.Millisecond), Comment: comment,
	}}
	return c, s.putChange(ctx, account, c)
}

func (s *Service) putChange(ctx context.Context, account string, c *pendingChange) error {
	key := changeKey(account, c.id)
	stored, err := s.changes.Encode(&c.changeRecord)
	if err == nil {
		_, err = s.deps.Bucket.Put(ctx, key, stored)
	}
	if err != nil {
		return storeError("write change", key, err)
	}
	return nil
}

// ChangeResourceRecordSets applies a change batch, all of it or nothing, in one write.
func (s *Service) ChangeResourceRecordSets(ctx context.Context, call *aws.Call, in *api.ChangeResourceRecordSetsRequest) (*api.ChangeResourceRecordSetsResponse, error) {
	request := value(in.ChangeBatch)
	if len(request.Changes) == 0 {
		return nil, invalidInput("Invalid request: ChangeBatch must have at least one change")
	}
	if runes(value(request.Comment)) > maxComment {
		return nil, invalidInput("Comment must not have more than %d characters", maxComment)
	}
	decoded := decodeBatch(request.Changes)
	change := &pendingChange{id: newChangeID(), changeRecord: changeRecord{
		SubmittedAt: time.Now().UTC().Truncate(time.Millisecond), Comment: value(request.Comment),
	}}
	_, err := s.editZone(ctx, call.Account, value(in.HostedZoneId), s.batchEdit(ctx, call.Account, decoded, change))
	if err != nil {
		return nil, err
	}
	return &api.ChangeResourceRecordSetsResponse{ChangeInfo: change.info(api.ChangeStatusPending)}, nil
}

// batchEdit is the edit that applies a batch under the id of change, and fills change in.
func (s *Service) batchEdit(ctx context.Context, account string, b *batch, change *pendingChange) func(*zoneRecord) error {
	return func(z *zoneRecord) error {
		if z.hasChange(change.id) {
			return errUnchanged // an earlier try landed, only its answer was lost
		}
		if err := s.applyBatch(z, b); err != nil {
			return err
		}
		z.addRecentChange(change.id)
		if change.Serial == z.Serial {
			return nil
		}
		// The client learns the id after the zone is written; by then this record is true.
		change.Zone, change.Serial = z.ID, z.Serial
		return s.putChange(ctx, account, change)
	}
}

// applyBatch changes the record in memory: the record sets and the serial.
func (s *Service) applyBatch(z *zoneRecord, b *batch) error {
	sets, faults := evaluate(zoneIdent{id: z.ID, name: z.Name}, z.RecordSets, b)
	if faults != nil {
		return faults.err()
	}
	z.RecordSets = sets
	z.Serial = dnsapi.NextSerial(z.Serial, time.Now())
	zone, err := render(z)
	if err != nil {
		return err
	}
	published, err := json.Marshal(zone)
	if err != nil {
		return err
	}
	if len(published) > s.deps.MaxZoneBytes {
		return tooLarge(s.deps.MaxZoneBytes)
	}
	return nil
}

// ListResourceRecordSets answers a page of record sets in list order, from the given name, type and
// identifier on.
func (s *Service) ListResourceRecordSets(ctx context.Context, call *aws.Call, in *api.ListResourceRecordSetsRequest) (*api.ListResourceRecordSetsResponse, error) {
	limit, err := pageLimit(in.MaxItems, maxSetsPage)
	if err != nil {
		return nil, err
	}
	start, err := listStart(in)
	if err != nil {
		return nil, err
	}
	z, err := s.getZone(ctx, call.Account, value(in.HostedZoneId))
	if err != nil {
		return nil, err
	}
	page, next := pageSets(z.RecordSets, start, limit)
	encoded, err := encodeSets(page, maxPageBytes)
	if err != nil {
		return nil, err
	}
	if len(encoded) < len(page) {
		next = &page[len(encoded)]
	}
	out := &api.ListResourceRecordSetsResponse{
		ResourceRecordSets: encoded, IsTruncated: new(next != nil), MaxItems: new(strconv.Itoa(limit)),
	}
	if next != nil {
		out.NextRecordName, out.NextRecordType = new(next.Name), new(next.Type)
		if next.SetID != "" {
			out.NextRecordIdentifier = new(next.SetID)
		}
	}
	return out, nil
}

// encodeSets encodes sets until their answer would pass most bytes, and at least the first.
func encodeSets(sets []recordSet, most int) ([]api.ResourceRecordSet, error) {
	out := make([]api.ResourceRecordSet, 0, len(sets))
	size := 0
	for i := range sets {
		set := encodeSet(&sets[i])
		text, err := json.Marshal(set)
		if err != nil {
			return nil, err
		}
		if size += len(text) + 1; size > most && i > 0 {
			break
		}
		out = append(out, set)
	}
	return out, nil
}

// listStart is where a list begins. A type needs a name, an identifier needs both.
func listStart(in *api.ListResourceRecordSetsRequest) (listPoint, error) {
	start := listPoint{typ: value(in.StartRecordType), setID: value(in.StartRecordIdentifier)}
	if value(in.StartRecordName) == "" {
		if start.typ != "" || start.setID != "" {
			return start, invalidInput("StartRecordType and StartRecordIdentifier need StartRecordName")
		}
		return start, nil
	}
	name, p := canonicalName(*in.StartRecordName)
	switch {
	case p != nil:
		return start, invalidInput("StartRecordName: %s", p)
	case start.typ != "" && !knownType(start.typ):
		return start, invalidInput("StartRecordType '%s' is not a record type", clip(start.typ))
	case start.typ == "" && start.setID != "":
		return start, invalidInput("StartRecordIdentifier needs StartRecordType")
	}
	start.order = nameOrder(name)
	return start, nil
}

// GetChange answers INSYNC once every live DNS server answers with the change. It is computed from
// what the servers report; no loop sets it.
func (s *Service) GetChange(ctx context.Context, call *aws.Call, in *api.GetChangeRequest) (*api.GetChangeResponse, error) {
	id, ok := bareID(value(in.Id), changePrefix)
	if !ok {
		return nil, noSuchChange(value(in.Id))
	}
	rec, _, err := s.changes.Get(ctx, changeKey(call.Account, id))
	switch {
	case errors.Is(err, kvstore.ErrNotFound):
		return nil, noSuchChange(id)
	case err != nil:
		return nil, storeError("read change", changeKey(call.Account, id), err)
	}
	settled, err := s.settled(ctx, call.Account, rec)
	if err != nil {
		return nil, err
	}
	status := api.ChangeStatusPending
	if settled {
		status = api.ChangeStatusInsync
	}
	change := &pendingChange{id: id, changeRecord: *rec}
	return &api.GetChangeResponse{ChangeInfo: change.info(status)}, nil
}

// settled reports whether nothing is left to be done for a change: its zone is gone or is not to be
// published, or every live server has it.
func (s *Service) settled(ctx context.Context, account string, c *changeRecord) (bool, error) {
	_, _, err := s.zones.Get(ctx, zoneKey(account, c.Zone))
	switch {
	case errors.Is(err, kvstore.ErrNotFound):
		return true, nil
	case err != nil:
		return false, storeError("read hosted zone", zoneKey(account, c.Zone), err)
	}
	status, _, err := s.statuses.Get(ctx, statusKey(account, c.Zone))
	switch {
	case errors.Is(err, kvstore.ErrNotFound):
		return false, nil // the realizer has not seen the zone yet
	case err != nil:
		return false, storeError("read status", statusKey(account, c.Zone), err)
	case status.State != stateActive:
		return true, nil
	}
	var servers []liveServer
	for e, err := range s.deps.Servers.List(ctx, dnsapi.ServerPrefix) {
		if err != nil {
			return false, storeError("list DNS servers", dnsapi.ServerPrefix, err)
		}
		server := liveServer{seen: e.Created}
		if err := json.Unmarshal(e.Value, &server.status); err != nil {
			s.deps.Log.WarnContext(ctx, "report of a DNS server cannot be read", "key", e.Key, "error", err)
		}
		servers = append(servers, server)
	}
	return inSync(servers, c.Zone, c.Serial, time.Now()), nil
}

// liveServer is a DNS server's report and when the store received it.
type liveServer struct {
	seen   time.Time
	status dnsapi.ServerStatus
}

// inSync reports whether at least one server is live and every live one answers with the serial or
// a later one. A live server whose report cannot be read has no serial.
func inSync(servers []liveServer, zone string, serial uint32, now time.Time) bool {
	live := 0
	for _, s := range servers {
		if now.Sub(s.seen) > dnsapi.ServerLive {
			continue
		}
		live++
		if s.status.Zones[zone] < serial {
			return false
		}
	}
	return live > 0
}
