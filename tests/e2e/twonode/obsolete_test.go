package twonode

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// obsolete are the buckets in which earlier releases elected their loops.
func obsolete() []string {
	return []string{
		"spinifex-dhcp-leases", "spinifex-vpcd-reconcile", "spinifex-dns-reconcile", "spinifex-route53-realize",
		"spinifex-route53-verify", "spinifex-quota-reconcile", "spinifex-rds-leader", "spinifex-ecs-leader",
		"bedrock-leader", "spinifex-eks-leader", "spinifex-elbv2-leader",
	}
}

func seed(t *testing.T, js jetstream.JetStream, bucket string) jetstream.KeyValue {
	t.Helper()
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
	require.NoError(t, err)
	return kv
}

func TestObsoleteBucketsAreRemovedAtStart(t *testing.T) {
	url := startNATS(t)
	js := connect(t, url)
	for _, bucket := range obsolete() {
		seed(t, js, bucket)
	}
	_, err := seed(t, js, "somebody-elses").PutString(t.Context(), "key", "value")
	require.NoError(t, err)

	node := cloud.Start(t, cloud.Options{Binary: binary, NATS: url})
	for _, bucket := range obsolete() {
		_, err := js.KeyValue(t.Context(), bucket)
		require.ErrorIsf(t, err, jetstream.ErrBucketNotFound, "%s", bucket)
	}
	other, err := js.KeyValue(t.Context(), "somebody-elses")
	require.NoError(t, err)
	entry, err := other.Get(t.Context(), "key")
	require.NoError(t, err)
	assert.Equal(t, "value", string(entry.Value()))

	node.Stop()
}

// TestStartWaitsForAnEarlierRelease has a key in one of the buckets as an earlier release that is
// still electing would: the start says whom it waits for, builds no lease, and goes on once the key
// is gone.
func TestStartWaitsForAnEarlierRelease(t *testing.T) {
	url := startNATS(t)
	js := connect(t, url)
	old := seed(t, js, "spinifex-rds-leader")
	_, err := old.PutString(t.Context(), "leader", "old-node-7")
	require.NoError(t, err)

	node := cloud.New(t, cloud.Options{Binary: binary, NATS: url})
	node.Start()
	testkit.Eventually(t, cloud.StartTimeout, func() (bool, string) {
		log := node.Output()
		return strings.Contains(log, "spinifex-rds-leader") && strings.Contains(log, "old-node-7"), log
	})
	sync, err := js.KeyValue(t.Context(), "spinifex-sync")
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		require.NoError(t, err)
		for _, key := range leaseKeys() {
			_, err := sync.Get(t.Context(), key)
			require.ErrorIs(t, err, jetstream.ErrKeyNotFound, "nobody leads %s while an earlier release elects", key)
		}
	}

	require.NoError(t, old.Purge(t.Context(), "leader"))
	node.WaitReady()
	waitLeadsAll(t, node, takeOver)
	testkit.Eventually(t, takeOver, func() (bool, string) {
		_, err := js.KeyValue(t.Context(), "spinifex-rds-leader")
		return errors.Is(err, jetstream.ErrBucketNotFound), fmt.Sprint(err)
	})
}
