package iam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
	"github.com/mulgadc/spinifex/foundation/seal"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func newSealer(t *testing.T, fill byte) *seal.Sealer {
	t.Helper()
	sealer, err := seal.New(bytes.Repeat([]byte{fill}, seal.KeySize), "keys/sealing.key")
	require.NoError(t, err)
	return sealer
}

// newService makes a Service as a process of its own would: with its own handle of the bucket.
func newService(t *testing.T, js jetstream.JetStream, fill byte) *Service {
	t.Helper()
	return New(Deps{Records: kvstore.Open(js, Bucket), Sealer: newSealer(t, fill)})
}

// allRecords returns the values of the bucket by key.
func allRecords(t *testing.T, js jetstream.JetStream) map[string]string {
	t.Helper()
	records := map[string]string{}
	for entry, err := range kvstore.Open(js, Bucket).List(t.Context(), "") {
		require.NoError(t, err)
		records[entry.Key] = string(entry.Value)
	}
	return records
}

func TestAdministratorIsMadeOnce(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	const processes = 8
	got := make([]Administrator, processes)
	var wg sync.WaitGroup
	for i := range got {
		service := newService(t, js, 1)
		wg.Go(func() {
			var err error
			got[i], err = service.EnsureAdministrator(t.Context())
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	created := 0
	for _, administrator := range got {
		if administrator.Created {
			created++
		}
		assert.Equal(t, got[0].Credential, administrator.Credential)
	}
	assert.Equal(t, 1, created)

	administrator := got[0]
	assert.Equal(t, "arn:aws:iam::000000000001:user/admin", administrator.ARN)
	assert.Equal(t, "000000000001", administrator.Account)
	assert.Regexp(t, `^AKIA[A-Z2-7]{16}$`, administrator.AccessKeyID)
	assert.Regexp(t, `^AIDA[A-Z2-7]{17}$`, administrator.UserID)
	assert.Regexp(t, `^[A-Za-z0-9+/]{40}$`, administrator.Secret)

	records := allRecords(t, js)
	require.Len(t, records, 3)
	assert.Contains(t, records, "000000000001.user.admin")
	assert.Contains(t, records, "000000000001.key."+administrator.AccessKeyID)
	assert.Contains(t, records, "key."+administrator.AccessKeyID)
	for key, value := range records {
		assert.NotContains(t, value, administrator.Secret, key)
		assert.NotContains(t, value, "first_key", key)
	}
	again, err := newService(t, js, 1).EnsureAdministrator(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Administrator{Credential: administrator.Credential}, again)
	assert.Equal(t, records, allRecords(t, js), "a further start changes nothing")
}

// TestAKilledStartIsFinishedByTheNext goes through every state that a kill can leave behind.
func TestAKilledStartIsFinishedByTheNext(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	first := newService(t, js, 1)
	created, err := first.createAdministrator(t.Context(), userKey(AdministratorAccount, AdministratorName))
	require.NoError(t, err)
	require.True(t, created)
	user, _, err := first.users.Get(t.Context(), userKey(AdministratorAccount, AdministratorName))
	require.NoError(t, err)
	key := user.FirstKey
	require.NotNil(t, key)
	start := func() Administrator {
		administrator, err := newService(t, js, 1).EnsureAdministrator(t.Context())
		require.NoError(t, err)
		assert.Equal(t, key.ID, administrator.AccessKeyID)
		assert.False(t, administrator.Created)
		require.Len(t, allRecords(t, js), 3)
		_, err = newService(t, js, 1).Lookup(t.Context(), key.ID)
		require.NoError(t, err)
		return administrator
	}
	want := start()
	for _, lost := range [][]string{{indexKey(key.ID)}, {indexKey(key.ID), keyKey(key.Account, key.ID)}, {}} {
		for _, name := range lost {
			require.NoError(t, kvstore.Open(js, Bucket).Delete(t.Context(), name))
		}
		_, _, err = first.users.Update(t.Context(), userKey(AdministratorAccount, AdministratorName), func(u *userRecord) error {
			u.FirstKey = key
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, want, start())
	}
}

func TestADeletedKeyDoesNotComeBack(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	service := newService(t, js, 1)
	administrator, err := service.EnsureAdministrator(t.Context())
	require.NoError(t, err)
	require.NoError(t, service.keys.Delete(t.Context(), keyKey(AdministratorAccount, administrator.AccessKeyID)))
	_, err = newService(t, js, 1).EnsureAdministrator(t.Context())
	require.ErrorIs(t, err, ErrNoActiveKey)
	_, err = newService(t, js, 1).Lookup(t.Context(), administrator.AccessKeyID)
	require.ErrorIs(t, err, ErrNoSuchKey)
}

func TestOldestActiveKeyIsReturned(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	service := newService(t, js, 1)
	first, err := service.EnsureAdministrator(t.Context())
	require.NoError(t, err)
	for id, created := range map[string]time.Time{"AKIAOLDERBUTINACTIVE": time.Unix(1, 0), "AKIAYOUNGER000000000": time.Now().Add(time.Hour)} {
		sealed, err := service.sealer.Seal([]byte("other"), sealContext(AdministratorAccount, id))
		require.NoError(t, err)
		status := statusActive
		if strings.Contains(id, "INACTIVE") {
			status = "Inactive"
		}
		_, err = service.keys.Create(t.Context(), keyKey(AdministratorAccount, id), &accessKeyRecord{
			Account: AdministratorAccount, ID: id, User: AdministratorName, Secret: sealed, Status: status, Created: created,
		})
		require.NoError(t, err)
		_, err = service.index.Create(t.Context(), indexKey(id), &keyIndexRecord{Account: AdministratorAccount})
		require.NoError(t, err)
	}
	again, err := service.EnsureAdministrator(t.Context())
	require.NoError(t, err)
	assert.Equal(t, first.Credential, again.Credential)
	_, err = service.Lookup(t.Context(), "AKIAOLDERBUTINACTIVE")
	require.ErrorIs(t, err, ErrNoSuchKey)
	younger, err := service.Lookup(t.Context(), "AKIAYOUNGER000000000")
	require.NoError(t, err)
	assert.Equal(t, "other", younger.Secret)
}

func TestAnotherSealingKeySaysWhichFileToCopy(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	administrator, err := newService(t, js, 1).EnsureAdministrator(t.Context())
	require.NoError(t, err)
	other := newService(t, js, 2)
	_, err = other.EnsureAdministrator(t.Context())
	var wrongKey *seal.OtherKeyError
	require.ErrorAs(t, err, &wrongKey)
	assert.ErrorContains(t, err, "copy the file keys/sealing.key")
	_, err = other.Lookup(t.Context(), administrator.AccessKeyID)
	require.ErrorAs(t, err, &wrongKey)
}

func TestASecretOfAnotherRecordIsRefused(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	service := newService(t, js, 1)
	administrator, err := service.EnsureAdministrator(t.Context())
	require.NoError(t, err)
	record, _, err := service.keys.Get(t.Context(), keyKey(AdministratorAccount, administrator.AccessKeyID))
	require.NoError(t, err)
	record.ID = "AKIACOPIED0000000000"
	_, err = service.keys.Create(t.Context(), keyKey(AdministratorAccount, record.ID), record)
	require.NoError(t, err)
	_, err = service.index.Create(t.Context(), indexKey(record.ID), &keyIndexRecord{Account: AdministratorAccount})
	require.NoError(t, err)
	_, err = service.Lookup(t.Context(), record.ID)
	require.ErrorIs(t, err, seal.ErrAltered)
}

func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn, js := testkit.StartTestJetStream(t)
		service := newService(t, js, 1)
		administrator, err := service.EnsureAdministrator(t.Context())
		require.NoError(t, err)
		got, err := service.Lookup(t.Context(), administrator.AccessKeyID)
		require.NoError(t, err)
		assert.Equal(t, administrator.Credential, got)
		for _, id := range []string{"", "AKIA", "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", "AKIA.*.AAAAAAAAAAAAAA", "AKIA>AAAAAAAAAAAAAAA", strings.Repeat("A", 4000)} {
			_, err := service.Lookup(t.Context(), id)
			require.ErrorIs(t, err, ErrNoSuchKey, "%.30q", id)
		}
		signing, err := service.SigningKey(t.Context(), administrator.AccessKeyID, "")
		require.NoError(t, err)
		assert.Equal(t, &sigv4.Credentials{
			AccessKeyID: got.AccessKeyID, Secret: got.Secret,
			Identity: sigv4.Identity{Account: got.Account, Principal: got.ARN, UserID: got.UserID},
		}, signing)
		_, err = service.SigningKey(t.Context(), "AKIAIOSFODNN7EXAMPLE", "")
		require.ErrorIs(t, err, sigv4.ErrUnknownKey)

		// What was deactivated works until the memory of it ends, and no longer.
		_, _, err = service.keys.Update(t.Context(), keyKey(AdministratorAccount, administrator.AccessKeyID), func(k *accessKeyRecord) error {
			k.Status = "Inactive"
			return nil
		})
		require.NoError(t, err)
		_, err = service.Lookup(t.Context(), administrator.AccessKeyID)
		require.NoError(t, err)
		time.Sleep(CacheTTL)
		_, err = service.Lookup(t.Context(), administrator.AccessKeyID)
		require.ErrorIs(t, err, ErrNoSuchKey)

		// A store that is away is not an unknown key.
		conn.Close()
		_, err = service.Lookup(t.Context(), administrator.AccessKeyID)
		require.Error(t, err)
		assert.NotErrorIs(t, err, ErrNoSuchKey)
	})
}

func TestCacheIsBounded(t *testing.T) {
	cache, now := newCache(10, time.Minute), time.Unix(1_000_000, 0)
	for i := range 100 {
		cache.put(Credential{AccessKeyID: fmt.Sprint(i)}, now)
	}
	assert.Len(t, cache.entries, 10)
	_, ok := cache.get("99", now.Add(59*time.Second))
	assert.True(t, ok)
	_, ok = cache.get("99", now.Add(time.Minute))
	assert.False(t, ok)
	assert.NotContains(t, cache.entries, "99")
}

func TestSecretsAreNotPrinted(t *testing.T) {
	credential := Credential{AccessKeyID: "AKIA1", Secret: "s3cret", ARN: "arn"}
	administrator := Administrator{Credential: credential}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		assert.NotContains(t, fmt.Sprintf(verb, credential), "s3cret")
		assert.NotContains(t, fmt.Sprintf(verb, administrator), "s3cret")
		assert.NotContains(t, fmt.Sprintf(verb, &administrator), "s3cret")
	}
}

func TestEnsureEndsWithItsContext(t *testing.T) {
	_, conn, js := testkit.StartTestJetStream(t)
	service := newService(t, js, 1)
	conn.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	_, err := service.EnsureAdministrator(ctx)
	require.Error(t, err)
}
