package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

var _ kvsync.Identity = (*DataDir)(nil)

func open(t *testing.T, path string, roles ...Role) *DataDir {
	t.Helper()
	d, err := OpenDataDir(path, roles...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func TestDataDirIsPrivateAndKeepsItsNodeID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d := open(t, path, RoleDaemon)
	id := d.NodeID()
	assert.Len(t, id, 32)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, d.Close())

	require.NoError(t, os.Chmod(path, 0o755))
	d = open(t, path, RoleDaemon)
	assert.Equal(t, id, d.NodeID())
	info, err = os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "tightened")
	require.NoError(t, d.Close())

	require.NoError(t, os.WriteFile(filepath.Join(path, "node_id"), []byte("x"), 0o600))
	_, err = OpenDataDir(path, RoleDaemon)
	require.ErrorContains(t, err, "damaged")
	open(t, t.TempDir(), RoleDaemon)
	_, err = OpenDataDir(path)
	require.ErrorContains(t, err, "no role")
}

func TestSecondProcessOfARoleIsRefused(t *testing.T) {
	path := t.TempDir()
	first := open(t, path, RoleNATS, RoleDaemon)
	_, err := OpenDataDir(path, RoleDNS, RoleDaemon)
	require.ErrorIs(t, err, ErrInUse)
	assert.ErrorContains(t, err, "role daemon in "+path)
	assert.ErrorContains(t, err, fmt.Sprintf("process %d", os.Getpid()))

	dns := open(t, path, RoleDNS) // the refused one has kept nothing
	assert.Equal(t, first.NodeID(), dns.NodeID())
	require.NoError(t, first.Close())
	open(t, path, RoleDaemon)
}

// TestLockOfAKilledProcess has another process take the lock and be killed.
func TestLockOfAKilledProcess(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(path, "roles", "daemon"), 0o700))
	cmd := exec.Command("flock", filepath.Join(path, "roles", "daemon", "lock"), "sh", "-c", "echo locked; read x")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stdout.Read(make([]byte, 16))
	require.NoError(t, err)
	_, err = OpenDataDir(path, RoleDaemon)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, stdin.Close())
	require.Error(t, cmd.Wait(), "read fails at the end of its input")
	open(t, path, RoleDaemon)
}

func TestEarlierStartsAreProvenDead(t *testing.T) {
	path := t.TempDir()
	var earlier []string
	for range 3 {
		d := open(t, path, RoleDaemon)
		earlier = append(earlier, d.Incarnation())
		require.NoError(t, d.Close())
	}
	dns := open(t, path, RoleDNS)
	d := open(t, path, RoleDaemon)
	for _, name := range earlier {
		assert.True(t, d.ProvenDead(name))
	}
	assert.False(t, d.ProvenDead(d.Incarnation()), "ourselves")
	assert.False(t, d.ProvenDead(dns.Incarnation()), "another role's process that runs now")
	assert.False(t, dns.ProvenDead(earlier[0]), "a start of a role whose lock is not ours")
	assert.False(t, d.ProvenDead(""))
	assert.False(t, d.ProvenDead(randomID()))
}

func TestOnlyTheNewestIncarnationsAreKept(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, RoleDaemon)
	oldest := d.Incarnation()
	file := d.Path("roles", "daemon", "incarnations")
	require.NoError(t, d.Close())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var more strings.Builder
	for range maxIncarnations - 1 {
		more.WriteString(randomID() + "\n")
	}
	require.NoError(t, os.WriteFile(file, append(text, more.String()...), 0o600))

	d = open(t, path, RoleDaemon)
	assert.True(t, d.ProvenDead(oldest), "read now, dropped from the file")
	require.NoError(t, d.Close())
	d = open(t, path, RoleDaemon)
	assert.False(t, d.ProvenDead(oldest))
	assert.Len(t, d.dead, maxIncarnations)
}

func TestDamagedOrForeignIncarnationsProveNothing(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, RoleDaemon)
	alive := d.Incarnation()

	t.Run("copied directory", func(t *testing.T) {
		copied := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.CopyFS(copied, os.DirFS(path)))
		require.NoError(t, os.Chmod(filepath.Join(copied, "node_id"), 0o600)) // CopyFS has given it 0644
		c := open(t, copied, RoleDaemon)
		assert.False(t, c.ProvenDead(alive), "the original still runs")
		assert.True(t, strings.HasPrefix(readText(t, c.Path("roles", "daemon", "incarnations")), incarnationsVersion))
	})
	t.Run("torn line", func(t *testing.T) {
		file := d.Path("roles", "daemon", "incarnations")
		torn := randomID()[:20]
		require.NoError(t, d.Close())
		require.NoError(t, os.WriteFile(file, []byte(readText(t, file)+torn), 0o600))
		d := open(t, path, RoleDaemon)
		assert.True(t, d.ProvenDead(alive))
		assert.False(t, d.ProvenDead(torn))
	})
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
