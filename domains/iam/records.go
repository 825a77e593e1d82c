package iam

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"regexp"
	"time"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// Bucket is where the domain's records are.
const Bucket = "spinifex-iam"

// The first account and its administrator.
const (
	AdministratorAccount = "000000000001"
	AdministratorName    = "admin"
)

// recordVersion is the major version of every record here.
const recordVersion = 1

// userRecord is <account>.user.<name>.
type userRecord struct {
	Version int       `json:"version"`
	Account string    `json:"account"`
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	ID      string    `json:"id"` // AIDA…
	Created time.Time `json:"created"`
	// FirstKey is there from the creation of the administrator until the key has its own records.
	FirstKey *accessKeyRecord `json:"first_key,omitzero"`
}

// userARN is the ARN of a user. A path begins and ends with a slash.
func userARN(account, path, name string) string {
	return aws.ARN{Service: "iam", Account: account, Resource: "user" + path + name}.String()
}

// accessKeyRecord is <account>.key.<id>.
type accessKeyRecord struct {
	Version int       `json:"version"`
	Account string    `json:"account"`
	ID      string    `json:"id"` // AKIA…
	User    string    `json:"user"`
	Secret  string    `json:"secret"` // sealed for keyKey
	Status  string    `json:"status"` // statusActive or "Inactive"
	Created time.Time `json:"created"`
}

const statusActive = "Active"

// keyIndexRecord is key.<id>.
type keyIndexRecord struct {
	Version int    `json:"version"`
	Account string `json:"account"`
}

func userKey(account, name string) string { return account + ".user." + kvstore.EscapeToken(name) }
func keysPrefix(account string) string    { return account + ".key." }
func keyKey(account, id string) string    { return keysPrefix(account) + id }
func indexKey(id string) string           { return "key." + id }

// sealContext binds a secret to its record.
func sealContext(account, id string) string { return Bucket + "/" + keyKey(account, id) }

// accessKeyID is what an access key id looks like: permanent keys begin with AKIA.
var accessKeyID = regexp.MustCompile(`^AKIA[A-Z0-9]{12,60}$`)

// newID returns prefix and n random characters of A-Z and 2-7.
func newID(prefix string, n int) (string, error) {
	random := make([]byte, (n*5+7)/8)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return prefix + base32.StdEncoding.EncodeToString(random)[:n], nil
}

// newSecret returns a secret access key: 40 characters, 240 random bits.
func newSecret() (string, error) {
	random := make([]byte, 30)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("make a secret: %w", err)
	}
	return base64.StdEncoding.EncodeToString(random), nil
}
