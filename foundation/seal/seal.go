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
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// LoadOrCreate reads the key file, or makes it with a random key, mode 0600, in a directory with
// mode 0700. Of two processes that make it at once both get the same key. A file that others than
// its owner may read is an error.
func LoadOrCreate(path string) (*Sealer, error) {
	sealer, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return sealer, err
	}
	if err := createKey(path); err != nil {
		return nil, fmt.Errorf("make the sealing key %s: %w", path, err)
	}
	return Load(path)
}

// Load reads the key file; see LoadOrCreate. A missing file is an error that is fs.ErrNotExist.
func Load(path string) (*Sealer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the sealing key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("the sealing key %s has mode %#o: others may read it, it must be 0600", path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the sealing key: %w", err)
	}
	encoded, ok := strings.CutPrefix(strings.TrimSpace(string(text)), keyPrefix)
	if !ok {
		return nil, fmt.Errorf("the sealing key %s does not begin with %q", path, keyPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("the sealing key %s is no base64", path) // the cause quotes the key
	}
	return New(key, path)
}

// createKey writes a new key whole, or leaves the one that another process has written meanwhile.
func createKey(path string) error {
	key := make([]byte, KeySize)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(keyPrefix + base64.StdEncoding.EncodeToString(key) + "\n")
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
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
