package iam

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// ErrNoActiveKey: the administrator is there but has no active access key any more.
var ErrNoActiveKey = errors.New("iam: the administrator has no active access key")

// Administrator is the first user of the cloud.
type Administrator struct {
	Credential
	// Created is true in the one process that made it, for saying so once.
	Created bool
}

// EnsureAdministrator makes the administrator of the first account and its access key where they are
// missing, or finishes making them, and returns the key: the oldest active one. It may be called in
// many processes at once; all return the same.
func (s *Service) EnsureAdministrator(ctx context.Context) (Administrator, error) {
	name := userKey(AdministratorAccount, AdministratorName)
	user, _, err := s.users.Get(ctx, name)
	created := false
	if errors.Is(err, kvstore.ErrNotFound) {
		if created, err = s.createAdministrator(ctx, name); err == nil {
			user, _, err = s.users.Get(ctx, name)
		}
	}
	if err != nil {
		return Administrator{}, fmt.Errorf("make the administrator %s: %w", name, err)
	}
	if user.FirstKey != nil {
		if err := s.finishFirstKey(ctx, name, user.FirstKey); err != nil {
			return Administrator{}, fmt.Errorf("make the administrator %s: %w", name, err)
		}
	}
	credential, err := s.oldestKey(ctx, user)
	if err != nil {
		return Administrator{}, fmt.Errorf("read the administrator's access key: %w", err)
	}
	return Administrator{Credential: credential, Created: created}, nil
}

// createAdministrator creates the user's record with the first key in it. It returns false when
// another process was first.
func (s *Service) createAdministrator(ctx context.Context, name string) (bool, error) {
	userID, err := newID("AIDA", 17)
	if err != nil {
		return false, err
	}
	keyID, err := newID("AKIA", 16)
	if err != nil {
		return false, err
	}
	secret, err := newSecret()
	if err != nil {
		return false, err
	}
	sealed, err := s.sealer.Seal([]byte(secret), sealContext(AdministratorAccount, keyID))
	if err != nil {
		return false, err
	}
	now := time.Now().UTC()
	_, err = s.users.Create(ctx, name, &userRecord{
		Version: recordVersion, Account: AdministratorAccount, Name: AdministratorName, Path: "/", ID: userID, Created: now,
		FirstKey: &accessKeyRecord{
			Version: recordVersion, Account: AdministratorAccount, ID: keyID, User: AdministratorName,
			Secret: sealed, Status: statusActive, Created: now,
		},
	})
	if errors.Is(err, kvstore.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// finishFirstKey gives the first key its own records. It only adds, so that it may run many times
// and be killed anywhere; the copy in the user's record goes last.
func (s *Service) finishFirstKey(ctx context.Context, name string, key *accessKeyRecord) error {
	_, err := s.keys.Create(ctx, keyKey(key.Account, key.ID), key)
	if err != nil && !errors.Is(err, kvstore.ErrConflict) {
		return err
	}
	_, err = s.index.Create(ctx, indexKey(key.ID), &keyIndexRecord{Version: recordVersion, Account: key.Account})
	if err != nil && !errors.Is(err, kvstore.ErrConflict) {
		return err
	}
	_, _, err = s.users.Update(ctx, name, func(user *userRecord) error {
		user.FirstKey = nil
		return nil
	})
	return err
}

// oldestKey returns a user's oldest active key.
func (s *Service) oldestKey(ctx context.Context, user *userRecord) (Credential, error) {
	var oldest *accessKeyRecord
	for record, err := range s.keys.List(ctx, keysPrefix(user.Account)) {
		if err != nil {
			return Credential{}, err
		}
		key := record.Value
		if key.User != user.Name || key.Status != statusActive {
			continue
		}
		if oldest == nil || key.Created.Before(oldest.Created) {
			oldest = key
		}
	}
	if oldest == nil {
		return Credential{}, ErrNoActiveKey
	}
	return s.open(user, oldest)
}
