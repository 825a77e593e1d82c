package node

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mulgadc/spinifex/foundation/privatefile"
)

// Role is what a process does on its node.
type Role string

// The roles.
const (
	RoleNATS   Role = "nats" // the embedded server
	RoleDaemon Role = "daemon"
	RoleAWSGW  Role = "awsgw"
	RoleDNS    Role = "dns"
)

// ErrInUse is a data directory in which another process runs one of the roles.
var ErrInUse = errors.New("data directory is in use")

// maxIncarnations bounds the file: a record in the store of a start further back does not exist.
const maxIncarnations = 1024

// incarnationsVersion begins the file's first line; the binding follows.
const incarnationsVersion = "v1 "

// DataDir is a node's directory with the locks of this process's roles. It is the kvsync.Identity of
// the process. Its methods are safe for concurrent use, except Close.
type DataDir struct {
	path        string
	nodeID      string
	incarnation string
	dead        map[string]struct{}
	locks       []*os.File
}

// OpenDataDir makes the directory when it is absent (mode 0700), locks it for the roles and names this
// start. An error that is ErrInUse says which process has which role.
func OpenDataDir(path string, roles ...Role) (*DataDir, error) {
	d := &DataDir{path: path, incarnation: randomID(), dead: map[string]struct{}{}}
	err := d.open(roles)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *DataDir) open(roles []Role) error {
	if len(roles) == 0 {
		return fmt.Errorf("open data directory %s: no role", d.path)
	}
	if err := privateDir(d.path); err != nil {
		return fmt.Errorf("open data directory: %w", err)
	}
	for _, role := range roles {
		dir := d.Path("roles", string(role))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("open data directory: %w", err)
		}
		lock, err := lockFile(filepath.Join(dir, "lock"))
		if err != nil {
			return fmt.Errorf("role %s in %s: %w", role, d.path, err)
		}
		d.locks = append(d.locks, lock)
		if err := d.recordStart(filepath.Join(dir, "incarnations"), lock); err != nil {
			return fmt.Errorf("role %s in %s: record this start: %w", role, d.path, err)
		}
	}
	return d.loadNodeID()
}

// Path joins names to the directory.
func (d *DataDir) Path(names ...string) string {
	return filepath.Join(append([]string{d.path}, names...)...)
}

// NodeID is the random name that the node got when its directory was made.
func (d *DataDir) NodeID() string { return d.nodeID }

// Incarnation is the random name of this start.
func (d *DataDir) Incarnation() string { return d.incarnation }

// ProvenDead reports whether the incarnation was an earlier start of one of this process's roles in
// this directory.
func (d *DataDir) ProvenDead(incarnation string) bool {
	_, ok := d.dead[incarnation]
	return ok && incarnation != d.incarnation
}

// Close gives up the locks. Whatever relied on the identity must have stopped.
func (d *DataDir) Close() error {
	var err error
	for _, lock := range slices.Backward(d.locks) {
		err = errors.Join(err, lock.Close())
	}
	d.locks = nil
	return err
}

// recordStart reads the earlier incarnations and writes them back with this one. The write is durable
// before the incarnation is used anywhere.
func (d *DataDir) recordStart(path string, lock *os.File) error {
	binding, err := bindingOf(lock)
	if err != nil {
		return err
	}
	earlier, err := readIncarnations(path, binding)
	if err != nil {
		return err
	}
	for _, name := range earlier {
		d.dead[name] = struct{}{}
	}
	all := append(earlier, d.incarnation)
	all = all[max(0, len(all)-maxIncarnations):]
	return privatefile.Write(path, []byte(incarnationsVersion+binding+"\n"+strings.Join(all, "\n")+"\n"))
}

// readIncarnations returns what the file lists; nothing when it is absent, damaged or not of this
// machine and directory, for then it proves nothing.
func readIncarnations(path, binding string) ([]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if lines[0] != incarnationsVersion+binding {
		return nil, nil
	}
	return slices.DeleteFunc(lines[1:], func(name string) bool { return !isID(name) }), nil
}

// bindingOf names the machine and the lock file, in a form that gives nothing away.
func bindingOf(lock *os.File) (string, error) {
	info, err := lock.Stat()
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("no inode number of %s", lock.Name())
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "spinifex lock of %s, %d:%d", bytes.TrimSpace(machine), stat.Dev, stat.Ino))
	return hex.EncodeToString(sum[:16]), nil
}

// loadNodeID reads the node's id, or makes it. Two roles of one new node that do so at once get the same.
func (d *DataDir) loadNodeID() error {
	path := d.Path("node_id")
	text, err := privatefile.ReadOrCreate(path, func() ([]byte, error) { return []byte(randomID() + "\n"), nil })
	if err != nil {
		return fmt.Errorf("node id: %w", err)
	}
	if d.nodeID = strings.TrimSpace(string(text)); !isID(d.nodeID) {
		return fmt.Errorf("%s is damaged: want 32 hexadecimal digits", path)
	}
	return nil
}

// privateDir makes a directory that only its owner may enter, or makes an existing one so.
func privateDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(path, 0o700)
	}
	return nil
}

// lockFile opens and locks a file without waiting, and leaves the process's number in it for the
// message of one that comes second. The file stays locked until it is closed.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid := make([]byte, 20)
		n, _ := file.ReadAt(pid, 0) // only for the message
		err = fmt.Errorf("%w: process %s runs this role there", ErrInUse, strings.TrimSpace(string(pid[:n])))
	} else if err == nil {
		if err = file.Truncate(0); err == nil {
			_, err = file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// randomID returns 128 random bits as 32 hexadecimal digits.
func randomID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

func isID(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 16
}
