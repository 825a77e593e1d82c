package twonode

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func contains(key, part string) bool { return strings.Contains(key, part) }

// zonePart is what the key of the zone's object contains.
const zonePart = "two"

func TestEachLeaseHasOneHolderAndACleanStopHandsOver(t *testing.T) {
	// The default time to live of 20 s: what is faster was handed over.
	p := startPair(t, cloud.Options{Binary: binary})
	leases := p.nodes[1].Leases()
	require.Len(t, leases, len(leaseKeys()))
	for _, key := range leaseKeys() {
		first, second := leads(leases, p.nodes[0], key), leads(leases, p.nodes[1], key)
		assert.Truef(t, first != second, "%s has exactly one holder: %+v", key, leases)
	}
	p.nodes[0].Stop()
	waitLeadsAll(t, p.nodes[1], 12*time.Second)
}

// TestKillTheLeaderDuringChanges kills the node that publishes zones in the middle of 200 changes.
func TestKillTheLeaderDuringChanges(t *testing.T) {
	const changes = 200
	p := startPair(t, cloud.Options{Binary: binary, TTL: ttl.String()})
	leader, survivor := p.holder(t, "route53.realize")
	z := createZone(t, survivor)
	seen := watchZones(t, connect(t, p.url))

	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range changes {
			z.create(t, i)
		}
	}()
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		n := z.acknowledged.Load()
		return n >= changes/2, fmt.Sprint(n, " acknowledged")
	})
	leader.Kill()
	waitLeadsAll(t, survivor, takeOver)
	<-done
	z.waitInSync(t)
	z.assertRecords(t, survivor, changes)
	seen.assertNoLateWrites(t)
}

// TestAStoppedLeaderWakesUpDeposed stops the leader for twice the time to live.
func TestAStoppedLeaderWakesUpDeposed(t *testing.T) {
	p := startPair(t, cloud.Options{Binary: binary, TTL: ttl.String()})
	leader, other := p.holder(t, "route53.realize")
	z := createZone(t, other)
	z.create(t, 0)
	z.waitInSync(t)
	seen := watchZones(t, connect(t, p.url))
	old := seen.waitGeneration(t, zonePart, 0)

	leader.Freeze()
	frozen := time.Now()
	waitLeadsAll(t, other, takeOver)
	z.create(t, 1)
	now := seen.waitGeneration(t, zonePart, old)
	testkit.Eventually(t, 10*ttl, func() (bool, string) {
		asleep := time.Since(frozen)
		return asleep >= 2*ttl, fmt.Sprint("asleep for ", asleep)
	})
	leader.Thaw()
	testkit.Eventually(t, takeOver, func() (bool, string) {
		log := leader.Output()
		return strings.Contains(log, "leadership lost"), "the old leader has not noticed; its log ends with:\n" + log[max(0, len(log)-4000):]
	})

	// The new leader goes on alone, and the old one follows: its DNS server answers, too.
	z.create(t, 2)
	z.waitInSync(t)
	z.assertRecords(t, other, 3)
	z.assertRecords(t, leader, 3)
	waitLeadsAll(t, other, takeOver)
	assert.Equal(t, now, seen.last(zonePart).generation, "still the same term")
	seen.assertNoLateWrites(t)
}

// TestTheFenceRefusesAWriteThatHadPassedEveryCheck stops the leader exactly between its last check
// and the sending of a zone, and lets it go on when another one has led for a while.
func TestTheFenceRefusesAWriteThatHadPassedEveryCheck(t *testing.T) {
	stopped := filepath.Join(t.TempDir(), "stopped")
	p := &pair{url: startNATS(t)}
	first := cloud.Start(t, cloud.Options{
		Binary: faulty, Name: "n1", NATS: p.url, TTL: ttl.String(),
		// What is written at start goes through; the zone's own writes come later.
		Env: []string{fmt.Sprintf("SPINIFEX_FAULT=kvstore.fence.before_publish=stop:%s:after=12", stopped)},
	})
	second := cloud.Start(t, cloud.Options{
		Binary: faulty, Name: "n2", NATS: p.url, TTL: ttl.String(), SealingKey: filepath.Join(first.Dir, "keys", "sealing.key"),
	})
	p.nodes = []*cloud.Node{first, second}
	waitLeadsAll(t, first, takeOver)
	z := createZone(t, second)
	seen := watchZones(t, connect(t, p.url))

	z.create(t, 0)
	old := seen.waitGeneration(t, zonePart, 0) // the first node's term
	records := 1
	for ; !exists(stopped); records++ {
		require.Less(t, records, 50, "the fault never happened")
		before := seen.last(zonePart).serial
		z.create(t, records)
		testkit.Eventually(t, 20*time.Second, func() (bool, string) {
			return exists(stopped) || seen.last(zonePart).serial > before, "neither written nor stopped"
		})
	}
	waitLeadsAll(t, second, takeOver)
	z.create(t, records)
	records++
	now := seen.waitGeneration(t, zonePart, old)
	z.waitInSync(t)
	written := len(seen.all())

	first.Thaw()
	testkit.Eventually(t, takeOver, func() (bool, string) {
		return refusal.MatchString(first.Output()), "no refusal in the log of the old leader"
	})
	logged := refusal.FindStringSubmatch(first.Output())
	assert.Equal(t, fmt.Sprint(old), logged[1], "the generation of the deposed leader")
	assert.Equal(t, fmt.Sprint(now), logged[2], "the generation that the bucket is fenced with")
	assert.Len(t, seen.all(), written, "the late write changed nothing")
	seen.assertNoLateWrites(t)

	z.create(t, records)
	records++
	z.waitInSync(t)
	z.assertRecords(t, second, records)
	z.assertRecords(t, first, records)
}

var refusal = regexp.MustCompile(`guarded write refused: a later leader has fenced the bucket.*generation=(\d+) fenced_generation=(\d+)`)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
