package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// Finding is one thing that the doctor has to say about the locks.
type Finding struct {
	// Fault is false for what weakens the locks without being wrong.
	Fault bool `json:"fault"`
	// What is wrong, in a sentence without a period.
	What string `json:"what"`
	// Mend is the command that mends it.
	Mend string `json:"mend"`

	rebuild bool // only a rebuild mends it
}

const (
	mendRebuild = "spinifex locks rebuild --yes"
	mendForce   = "spinifex locks rebuild --yes --force"
	mendOpen    = "spinifex locks ls" // opening the bucket puts its settings right
	mendAudit   = "spinifex bucket audit"
	mendDaemon  = "spinifex daemon"
)

// checkup is all that a diagnosis rests on.
type checkup struct {
	in      kvstore.Inspection
	err     error // of the inspection
	answers []ProcessLocks
	fence   uint64 // the highest one of any bucket
	now     time.Time
}

// Doctor looks for what is wrong with the bucket of the locks and with who holds them. It changes nothing.
// What it cannot look at is a finding, too; an error says that nobody could be asked at all.
func (b *LockBook) Doctor(ctx context.Context, size clustersize.Size) ([]Finding, error) {
	c, err := b.checkUp(ctx, size)
	if err != nil {
		return nil, err
	}
	return c.findings(), nil
}

func (b *LockBook) checkUp(ctx context.Context, size clustersize.Size) (*checkup, error) {
	answers, err := askLocks(ctx, b.conn)
	if err != nil {
		return nil, err
	}
	c := &checkup{answers: answers}
	c.in, c.err = kvstore.Inspect(ctx, b.conn.JetStream(), b.bucket.Name(), size)
	if c.err == nil {
		c.fence, c.err = kvstore.HighestFence(ctx, b.conn.JetStream())
	}
	c.now = time.Now()
	return c, nil
}

func (c *checkup) findings() []Finding {
	switch {
	case c.err != nil:
		return []Finding{{Fault: true, What: fmt.Sprintf("the bucket cannot be looked at: %v", c.err), Mend: mendAudit}}
	case !c.in.Exists:
		return []Finding{c.missing()}
	}
	var found []Finding
	found = append(found, c.stream()...)
	found = append(found, c.history()...)
	found = append(found, c.keys()...)
	found = append(found, c.leaders()...)
	return append(found, c.durability()...)
}

// missing tells a cloud that has not begun from one that has lost its locks.
func (c *checkup) missing() Finding {
	f := Finding{Fault: true, What: fmt.Sprintf("the bucket %s does not exist", c.in.Bucket), Mend: "spinifex up"}
	for _, a := range c.answers {
		if a.SyncSequence > 0 {
			f.What += fmt.Sprintf(", and %s had seen it at sequence %d", a.Process, a.SyncSequence)
			f.Mend, f.rebuild = mendRebuild, true
			break
		}
	}
	return f
}

// stream checks the configuration and the replicas.
func (c *checkup) stream() []Finding {
	var found []Finding
	for _, d := range c.in.Differences {
		f := Finding{Fault: true, What: "the setting " + d.String(), Mend: mendOpen}
		if d.Setting == "max_age" {
			f.What += ": locks would vanish with their age"
		}
		if d.Fixed {
			f.Mend, f.rebuild = mendRebuild, true
		}
		found = append(found, f)
	}
	if c.in.ReplicasActual < c.in.ReplicasWanted {
		found = append(found, Finding{Fault: true, Mend: mendDaemon, What: fmt.Sprintf(
			"the stream has %d replicas, the declared size asks for %d: a daemon that starts while all servers run raises them",
			c.in.ReplicasActual, c.in.ReplicasWanted)})
	}
	if c.in.ReplicasOnline < c.in.ReplicasActual {
		found = append(found, Finding{Fault: true, Mend: mendAudit, What: fmt.Sprintf(
			"%d of %d replicas are online, start the NATS server of the others: %s",
			c.in.ReplicasOnline, c.in.ReplicasActual, strings.Join(c.in.Away, ", "))})
	}
	if c.in.FirstSeq <= 1 {
		found = append(found, Finding{Fault: true, Mend: mendForce, What: "the stream began at sequence 1, as no daemon makes it: generations may repeat"})
	}
	return found
}

// history compares the stream with what live processes remember of it.
func (c *checkup) history() []Finding {
	var found []Finding
	regressed := func(format string, args ...any) {
		found = append(found, Finding{Fault: true, What: "the store has regressed: " + fmt.Sprintf(format, args...), Mend: mendRebuild, rebuild: true})
	}
	for _, a := range c.answers {
		switch {
		case a.SyncRegressed != "" && !c.in.Created.After(a.SyncCreated):
			regressed("%s refuses it, %s", a.Process, a.SyncRegressed)
		case a.SyncSequence > c.in.LastSeq:
			regressed("its last sequence is %d, %s had seen %d", c.in.LastSeq, a.Process, a.SyncSequence)
		case a.SyncCreated.After(c.in.Created):
			regressed("it was created %s, %s had seen one of %s", stamp(c.in.Created), a.Process, stamp(a.SyncCreated))
		case !a.SyncCreated.IsZero() && a.SyncCreated.Before(c.in.Created):
			if c.in.FirstSeq <= a.SyncSequence && a.SyncRegressed != "" { // otherwise it has only not looked yet
				regressed("it was made anew at sequence %d, %s had seen %d", c.in.FirstSeq, a.Process, a.SyncSequence)
			}
		}
	}
	if c.fence > c.in.LastSeq {
		regressed("its last sequence is %d, a bucket is fenced at generation %d", c.in.LastSeq, c.fence)
	}
	return found
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// keys checks the records and whether their holders live.
func (c *checkup) keys() []Finding {
	var found []Finding
	for _, entry := range c.in.Entries {
		lock := newLock(entry, c.answers, c.now)
		breaks := fmt.Sprintf("spinifex locks break %s --generation %d --reason TEXT", lock.Key, lock.Generation)
		if lock.Undecodable {
			found = append(found, Finding{Fault: true, What: fmt.Sprintf("%s holds what is no record", lock.Key), Mend: breaks})
			continue
		}
		process := c.process(lock.Holder)
		switch {
		case process == nil && lock.TTLMS == 0:
			found = append(found, Finding{Fault: true, Mend: breaks, What: fmt.Sprintf("%s is claimed by %s, which does not answer", lock.Key, lock.Holder)})
		case process == nil && lock.RenewedMS > lock.TTLMS && len(lock.Contenders) == 0:
			found = append(found, Finding{Fault: true, Mend: breaks, What: fmt.Sprintf(
				"%s has lapsed, its holder %s does not answer, and nobody wants it", lock.Key, lock.Holder)})
		case process == nil:
			found = append(found, Finding{Fault: true, Mend: "spinifex locks show " + lock.Key, What: fmt.Sprintf(
				"%s is held by %s, which does not answer: it lapses %s after its last renewal", lock.Key, lock.Holder, millis(lock.TTLMS))})
		case process.disowns(lock):
			found = append(found, Finding{Fault: true, Mend: "spinifex locks show " + lock.Key, What: fmt.Sprintf(
				"%s is recorded for %s at generation %d, which answers that it does not hold it", lock.Key, lock.Holder, lock.Generation)})
		}
	}
	return found
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// process returns the answer of a process, nil when it gave none.
func (c *checkup) process(name string) *ProcessLocks {
	for i := range c.answers {
		if c.answers[i].Process == name {
			return &c.answers[i]
		}
	}
	return nil
}

// disowns reports whether the process speaks of the key and does not hold it as recorded. It does not speak of
// what it holds in groups. A record that is being transferred is not its holder's yet.
func (p *ProcessLocks) disowns(lock Lock) bool {
	for _, view := range p.Locks {
		if view.Key == lock.Key {
			return !lock.Answered && lock.Reason == "" && lock.RenewedMS > lock.TTLMS/6
		}
	}
	return false
}

// leaders finds keys that processes want and nobody has had for longer than T.
func (c *checkup) leaders() []Finding {
	var found []Finding
	seen := map[string]bool{}
	for _, a := range c.answers {
		for _, view := range a.Locks {
			if seen[view.Key] {
				continue
			}
			seen[view.Key] = true
			if without := c.without(view.Key); without > view.TTLMS {
				found = append(found, Finding{Fault: true, Mend: "spinifex locks watch " + view.Key, What: fmt.Sprintf(
					"%s has had no leader for %s; the logs of those who want it say why", view.Key, millis(without).Round(time.Second))})
			}
		}
	}
	return found
}

// without is how long a key has had no leader: as far as those agree who want it.
func (c *checkup) without(key string) int64 {
	least := int64(-1)
	for _, a := range c.answers {
		for _, view := range a.Locks {
			if view.Key != key {
				continue
			}
			if view.Held {
				return 0
			}
			if least < 0 || view.WithoutLeaderMS < least {
				least = view.WithoutLeaderMS
			}
		}
	}
	return max(0, least)
}

// durability says what no client can find out, unless a process runs the server itself.
func (c *checkup) durability() []Finding {
	for _, a := range c.answers {
		if a.SyncAlways {
			return nil
		}
	}
	return []Finding{{
		What: "it is not known whether the NATS servers sync every write: without it a power cut may take back acknowledged locks",
		Mend: "jetstream { sync_interval: always } in each nats-server's configuration",
	}}
}
