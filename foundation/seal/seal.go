package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/mulgadc/spinifex/foundation/privatefile"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// keyPrefix begins the one line of a key file; the base64 of the key follows.
const keyPrefix = "spinifex-sealing-key-v1:"

// maxSealed bounds what Open looks at.
const maxSealed = 1 << 20

var (
	// ErrAltered: the text is not what Seal returned for this key and context.
	ErrAltered = errors.New("seal: the sealed text is altered or belongs to another record")
	// ErrMalformed: the text was never a sealed one.
	ErrMalformed = errors.New("seal: no sealed text")
)

// OtherKeyError is the error for a text that was sealed with another key than the Sealer's.
type OtherKeyError struct {
	SealedWith string // id of the key that is needed
	Have       string // id of the key of this process
	Path       string // the key file of this process
}

// Error says which file to copy.
func (e *OtherKeyError) Error() string {
	return fmt.Sprintf("seal: sealed with key %s, but %s holds key %s: copy the file keys/sealing.key of a node that has key %s to %s (mode 0600) and start again",
		e.SealedWith, e.Path, e.Have, e.SealedWith, e.Path)
}

// Sealer seals and opens with one key. It may be used by many goroutines.
type Sealer struct {
	aead cipher.AEAD
	id   string
	path string
}

// New makes a Sealer with a key of KeySize bytes. path is only for messages.
func New(key []byte, path string) (*Sealer, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("seal: the key of %s has %d bytes, want %d", path, len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	id := sha256.Sum256(append([]byte("spinifex sealing key id\x00"), key...))
	return &Sealer{aead: aead, id: hex.EncodeToString(id[:8]), path: path}, nil
}

// LoadOrCreate reads the key file, or makes it with a random key. Of two processes that make it at
// once both get the same key. A file that others than its owner may read is an error.
func LoadOrCreate(path string) (*Sealer, error) {
	text, err := privatefile.ReadOrCreate(path, newKeyFile)
	if err != nil {
		return nil, fmt.Errorf("the sealing key: %w", err)
	}
	return parse(text, path)
}

// Load reads the key file. A missing one is an error that is fs.ErrNotExist.
func Load(path string) (*Sealer, error) {
	text, err := privatefile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("the sealing key: %w", err)
	}
	return parse(text, path)
}

func parse(text []byte, path string) (*Sealer, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(string(text)), keyPrefix)
	if !ok {
		return nil, fmt.Errorf("the sealing key %s does not begin with %q", path, keyPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("the sealing key %s is no base64", path) // the cause tells of the key
	}
	return New(key, path)
}

func newKeyFile() ([]byte, error) {
	key := make([]byte, KeySize)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	return []byte(keyPrefix + base64.StdEncoding.EncodeToString(key) + "\n"), nil
}

// KeyID names the key without giving it away.
func (s *Sealer) KeyID() string { return s.id }

// Seal encrypts plain for the record that context names, such as its bucket and key. Sealing the
// same twice gives different texts.
func (s *Sealer) Seal(plain []byte, context string) (string, error) {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	sealed := s.aead.Seal(nonce, nonce, plain, []byte(context))
	return "v1." + s.id + "." + base64.RawStdEncoding.EncodeToString(sealed), nil
}

// Open decrypts what Seal returned for the same context. Its errors are ErrMalformed, ErrAltered
// and *OtherKeyError.
func (s *Sealer) Open(sealed, context string) ([]byte, error) {
	rest, ok := strings.CutPrefix(sealed, "v1.")
	id, encoded, found := strings.Cut(rest, ".")
	if !ok || !found || len(id) != len(s.id) || len(sealed) > maxSealed {
		return nil, ErrMalformed
	}
	if id != s.id {
		return nil, &OtherKeyError{SealedWith: id, Have: s.id, Path: s.path}
	}
	text, err := base64.RawStdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(text) < s.aead.NonceSize() {
		return nil, ErrMalformed
	}
	nonce, text := text[:s.aead.NonceSize()], text[s.aead.NonceSize():]
	plain, err := s.aead.Open(nil, nonce, text, []byte(context))
	if err != nil {
		return nil, ErrAltered
	}
	return plain, nil
}
