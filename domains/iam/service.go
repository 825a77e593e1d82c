package iam

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
	"github.com/mulgadc/spinifex/foundation/seal"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// ErrNoSuchKey: there is no active access key with that id.
var ErrNoSuchKey = errors.New("iam: no such access key")

// Deps are what a Service needs.
type Deps struct {
	// Records is the bucket named Bucket.
	Records *kvstore.Bucket
	// Sealer seals and opens the secrets; every process of the cloud has the same key.
	Sealer *seal.Sealer
}

// Service knows the users and their access keys.
type Service struct {
	users  *kvstore.Store[userRecord]
	keys   *kvstore.Store[accessKeyRecord]
	index  *kvstore.Store[keyIndexRecord]
	sealer *seal.Sealer
	cache  *cache
}

// New makes a Service. It does no I/O.
func New(deps Deps) *Service {
	return &Service{
		users:  kvstore.NewStore[userRecord](deps.Records, recordVersion),
		keys:   kvstore.NewStore[accessKeyRecord](deps.Records, recordVersion),
		index:  kvstore.NewStore[keyIndexRecord](deps.Records, recordVersion),
		sealer: deps.Sealer,
		cache:  newCache(maxCached, CacheTTL),
	}
}

// Credential is an access key and whose it is.
type Credential struct {
	AccessKeyID string
	// Secret is the plain secret access key: not to be logged or stored.
	Secret  string
	Account string
	User    string
	ARN     string
	UserID  string
}

// String leaves the secret out of whatever prints a Credential.
func (c Credential) String() string { return c.AccessKeyID + " of " + c.ARN }

// GoString is String: %#v must not print the secret either.
func (c Credential) GoString() string { return c.String() }

// Lookup returns the credential of an active access key. Its errors are ErrNoSuchKey, those of the
// store and those of package seal.
func (s *Service) Lookup(ctx context.Context, id string) (Credential, error) {
	if !accessKeyID.MatchString(id) {
		return Credential{}, ErrNoSuchKey
	}
	if credential, ok := s.cache.get(id, time.Now()); ok {
		return credential, nil
	}
	credential, err := s.read(ctx, id)
	if errors.Is(err, kvstore.ErrNotFound) {
		return Credential{}, ErrNoSuchKey
	}
	if err != nil {
		return Credential{}, fmt.Errorf("look up the access key %s: %w", id, err)
	}
	s.cache.put(credential, time.Now())
	return credential, nil
}

// read follows index, key and user. A part that is missing is kvstore.ErrNotFound.
func (s *Service) read(ctx context.Context, id string) (Credential, error) {
	index, _, err := s.index.Get(ctx, indexKey(id))
	if err != nil {
		return Credential{}, err
	}
	key, _, err := s.keys.Get(ctx, keyKey(index.Account, id))
	if err != nil {
		return Credential{}, err
	}
	if key.Status != statusActive {
		return Credential{}, ErrNoSuchKey
	}
	user, _, err := s.users.Get(ctx, userKey(index.Account, key.User))
	if err != nil {
		return Credential{}, err
	}
	return s.open(user, key)
}

func (s *Service) open(user *userRecord, key *accessKeyRecord) (Credential, error) {
	secret, err := s.sealer.Open(key.Secret, sealContext(key.Account, key.ID))
	if err != nil {
		return Credential{}, fmt.Errorf("open the secret of %s: %w", key.ID, err)
	}
	return Credential{
		AccessKeyID: key.ID, Secret: string(secret),
		Account: user.Account, User: user.Name, ARN: userARN(user.Account, user.Path, user.Name), UserID: user.ID,
	}, nil
}

// SigningKey is Lookup as sigv4.Options.Lookup wants it. There are no sessions yet, so that any
// session token is refused by the verifier.
func (s *Service) SigningKey(ctx context.Context, id, _ string) (*sigv4.Credentials, error) {
	credential, err := s.Lookup(ctx, id)
	if errors.Is(err, ErrNoSuchKey) {
		return nil, sigv4.ErrUnknownKey
	}
	if err != nil {
		return nil, err
	}
	return &sigv4.Credentials{
		AccessKeyID: credential.AccessKeyID, Secret: credential.Secret,
		Identity: sigv4.Identity{Account: credential.Account, Principal: credential.ARN, UserID: credential.UserID},
	}, nil
}
