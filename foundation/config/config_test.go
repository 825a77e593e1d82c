package config_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/config"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spinifex.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func user(t *testing.T) config.Host { return config.Host{Hostname: "Box_1.lan", Home: t.TempDir()} }

func TestDefaults(t *testing.T) {
	host := user(t)
	cfg, err := config.Load(config.Source{Host: host})
	require.NoError(t, err)
	assert.Equal(t, "box-1", cfg.Node.Name)
	assert.Equal(t, filepath.Join(host.Home, ".local/share/spinifex"), cfg.Node.DataDir)
	assert.Equal(t, filepath.Join(cfg.Node.DataDir, "keys/sealing.key"), cfg.Node.SealingKey)
	assert.Equal(t, "127.0.0.1:9999", cfg.AWSGW.Listen)
	assert.Equal(t, "127.0.0.1:1053", cfg.DNS.Listen)
	assert.Equal(t, "spinifex.internal", cfg.DNS.BaseDomain)
	assert.Equal(t, "127.0.0.1:4222", cfg.NATS.Listen)
	assert.Empty(t, cfg.NATS.URL)
	assert.Zero(t, cfg.NATS.Servers)
	assert.Equal(t, "127.0.0.1:9464", cfg.Telemetry.Listen)
	assert.Equal(t, "us-east-1", cfg.AWS.Region)
	assert.Equal(t, 20*time.Second, cfg.Locks.TTL)
	assert.Equal(t, config.DelegationTrust, cfg.Route53.Delegation)
	assert.Equal(t, slog.LevelInfo, cfg.Log.Level)
	assert.Equal(t, config.LogText, cfg.Log.Format)
}

func TestDataDirectoryDefaults(t *testing.T) {
	cfg, err := config.Load(config.Source{Host: config.Host{Root: true, Home: "/root"}, Environ: []string{"XDG_DATA_HOME=/x"}})
	require.NoError(t, err)
	assert.Equal(t, "/var/lib/spinifex", cfg.Node.DataDir)
	assert.Equal(t, "node", cfg.Node.Name, "no host name at all")

	cfg, err = config.Load(config.Source{Host: user(t), Environ: []string{"XDG_DATA_HOME=/x"}})
	require.NoError(t, err)
	assert.Equal(t, "/x/spinifex", cfg.Node.DataDir)

	host := user(t)
	cfg, err = config.Load(config.Source{Host: host, Environ: []string{"XDG_DATA_HOME=relative"}})
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(host.Home, ".local/share/spinifex"), cfg.Node.DataDir)
}

func TestEachSourceOverridesTheOneBefore(t *testing.T) {
	path := writeFile(t, `
[node]
name = "from-file"
data_dir = "/srv/file"
[aws]
region = "eu-file-1"
[nats]
servers = 3
url = "nats://a:pw@n1:4222, nats://a:pw@n2"
[log]
level = "debug"
`)
	cfg, err := config.Load(config.Source{
		File: path, Host: user(t),
		Environ:   []string{"SPINIFEX_NODE_DATA_DIR=/srv/env", "SPINIFEX_AWS_REGION=eu-env-1", "SPINIFEX_SOMETHING_ELSE=1", "SPINIFEX_CONFIG=x"},
		Overrides: []config.Override{{Key: "aws.region", Value: "eu-flag-1", From: "--region"}},
	})
	require.NoError(t, err)
	assert.Equal(t, "from-file", cfg.Node.Name)
	assert.Equal(t, "/srv/env", cfg.Node.DataDir)
	assert.Equal(t, "/srv/env/keys/sealing.key", cfg.Node.SealingKey)
	assert.Equal(t, "eu-flag-1", cfg.AWS.Region)
	assert.Equal(t, 3, cfg.NATS.Servers)
	assert.Equal(t, slog.LevelDebug, cfg.Log.Level)
}

func TestDefaultFileIsReadWhenThere(t *testing.T) {
	host := user(t)
	path := config.DefaultFile(nil, host)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("[locks]\nttl = \"3s\"\n"), 0o600))
	cfg, err := config.Load(config.Source{Host: host})
	require.NoError(t, err)
	assert.Equal(t, 3*time.Second, cfg.Locks.TTL)
	assert.Equal(t, "/etc/spinifex/spinifex.toml", config.DefaultFile(nil, config.Host{Root: true}))
}

func TestFaultsNameKeyValueAndWhatIsAllowed(t *testing.T) {
	cases := map[string]struct {
		file string
		env  []string
		want []string
	}{
		"unknown key":      {file: "[locks]\nttI = \"20s\"", want: []string{"spinifex.toml: locks.ttI: unknown key, did you mean locks.ttl?; known are locks.ttl"}},
		"unknown section":  {file: "[lock]\nttl = \"20s\"", want: []string{"lock.ttl: unknown key, did you mean locks.ttl?", "node.name"}},
		"empty section":    {file: "[cluster]", want: []string{"cluster: unknown key"}},
		"top level":        {file: "region = \"x\"", want: []string{"region: unknown key", "aws.region"}},
		"far from any":     {file: "[zzzzzzzz]\nqqqqqqqq = 1", want: []string{"zzzzzzzz.qqqqqqqq: unknown key; known are node.name"}},
		"unknown variable": {env: []string{"SPINIFEX_NODE_NAM=x"}, want: []string{"SPINIFEX_NODE_NAM: node.nam: unknown key, did you mean node.name?"}},
		"ttl text":         {file: "[locks]\nttl = \"soon\"", want: []string{`locks.ttl = "soon": want a duration from 3s to 10m0s`}},
		"ttl low":          {env: []string{"SPINIFEX_LOCKS_TTL=1s"}, want: []string{`SPINIFEX_LOCKS_TTL: locks.ttl = "1s"`}},
		"ttl number":       {file: "[locks]\nttl = 20", want: []string{`locks.ttl = "20": is a number, want a text in quotes`}},
		"name":             {file: "[node]\nname = \"a.b\"", want: []string{`node.name = "a.b": want 1 to 63 lower-case letters`}},
		"boolean":          {file: "[node]\nname = true", want: []string{`node.name = "true": want a text`}},
		"list":             {file: "[dns]\nlisten = [\"a\"]", want: []string{`dns.listen = "[a]": want a text`}},
		"listen host":      {file: "[awsgw]\nlisten = \"here:80\"", want: []string{`awsgw.listen = "here:80": want an IP address`}},
		"listen port":      {file: "[awsgw]\nlisten = \"127.0.0.1:70000\"", want: []string{`awsgw.listen = "127.0.0.1:70000": want a port from 1 to 65535`}},
		"listen no port":   {file: "[awsgw]\nlisten = \"127.0.0.1\"", want: []string{"want ADDRESS:PORT"}},
		"listen twice":     {file: "[awsgw]\nlisten = \"127.0.0.1:1053\"", want: []string{`dns.listen = "127.0.0.1:1053": is also the address of awsgw.listen`}},
		"base one label":   {file: "[dns]\nbase_domain = \"lan\"", want: []string{`dns.base_domain = "lan": want a domain name of at least two labels`}},
		"base bad":         {file: "[dns]\nbase_domain = \"a_b.lan\"", want: []string{`dns.base_domain = "a_b.lan": want a domain name: labels`}},
		"url":              {file: "[nats]\nurl = \"http://u:topsecret@h\"", want: []string{`nats.url = "http://u:xxxxx@h": want nats://`}},
		"url token":        {file: "[nats]\nurl = \"nats://topsecret@h/x\"", want: []string{`nats.url = "nats://xxxxx@h/x": want nats://`}},
		"url no scheme":    {file: "[nats]\nurl = \"topsecret@h\"", want: []string{`nats.url = "…@h": want nats://`}},
		"url unparsable":   {file: "[nats]\nurl = \"nats://u:topsecret@h:x%\"", want: []string{`nats.url = "…@h:x%"`}},
		"url port":         {file: "[nats]\nurl = \"nats://h:4222,nats://u:topsecret@h:99999\"", want: []string{`nats.url = "nats://h:4222,nats://u:xxxxx@h:99999": want ports`}},
		"servers alone":    {file: "[nats]\nservers = 3", want: []string{`nats.servers = "3": declares the size of the NATS cluster at nats.url`}},
		"servers":          {file: "[nats]\nservers = -3", want: []string{`nats.servers = "-3": want the number`}},
		"region":           {file: "[aws]\nregion = \"Mars\"", want: []string{`aws.region = "Mars": want a region name`}},
		"delegation":       {file: "[route53]\ndelegation = \"yes\"", want: []string{`route53.delegation = "yes": want one of trust, base, public`}},
		"level":            {file: "[log]\nlevel = \"all\"", want: []string{"want one of debug, info, warn, error"}},
		"format":           {file: "[log]\nformat = \"xml\"", want: []string{"want one of text, json"}},
		"syntax":           {file: "[node\nname", want: []string{"spinifex.toml:1:"}},
		"several at once":  {file: "[log]\nlevel = \"all\"\nx = 1", want: []string{"log.level", "log.x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(config.Source{File: writeFile(t, tc.file), Host: user(t), Environ: tc.env})
			require.Error(t, err)
			for _, want := range tc.want {
				assert.ErrorContains(t, err, want)
			}
			assert.NotContains(t, err.Error(), "topsecret")
		})
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	_, err := config.Load(config.Source{File: filepath.Join(t.TempDir(), "absent.toml"), Host: user(t)})
	require.ErrorIs(t, err, os.ErrNotExist)
	large := writeFile(t, "")
	require.NoError(t, os.Truncate(large, 2<<20))
	_, err = config.Load(config.Source{File: large, Host: user(t)})
	require.ErrorContains(t, err, "larger than")
}

func TestFreePortsMayBeAskedForSeveralTimes(t *testing.T) {
	_, err := config.Load(config.Source{Host: user(t), Environ: []string{"SPINIFEX_AWSGW_LISTEN=127.0.0.1:0", "SPINIFEX_DNS_LISTEN=127.0.0.1:0"}})
	require.NoError(t, err)
}

func TestDialAddr(t *testing.T) {
	for listen, want := range map[string]string{
		":53": "127.0.0.1:53", "0.0.0.0:53": "127.0.0.1:53", "[::]:53": "127.0.0.1:53",
		"192.0.2.1:53": "192.0.2.1:53", "[2001:db8::1]:53": "[2001:db8::1]:53", "localhost:53": "localhost:53",
	} {
		assert.Equal(t, want, config.DialAddr(listen), listen)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("[node]\nname = \"x\"\n")
	f.Add("a.b.c = [1, {d = 2}]\n[aws]\nregion = 1979-05-27")
	f.Fuzz(func(t *testing.T, text string) {
		path := writeFile(t, text)
		cfg, err := config.Load(config.Source{File: path, Host: config.Host{Home: "/home/u"}})
		if err == nil {
			assert.NotEmpty(t, cfg.Node.Name)
		}
	})
}
