package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// EnvPrefix begins the name of every variable that overrides a setting.
const EnvPrefix = "SPINIFEX_"

// maxFile bounds the configuration file: a larger one is not ours.
const maxFile = 1 << 20

// Config is the configuration of a process. Its addresses are host:port and have been checked.
type Config struct {
	Node struct {
		// Name of the node: unique in the cloud, part of the holder names of its leases.
		Name string
		// DataDir is an absolute path. It belongs to one process at a time.
		DataDir string
		// SealingKey is the absolute path of the key that seals secrets in the store; nodes of one
		// cloud share its content.
		SealingKey string
	}
	AWSGW struct{ Listen string }
	DNS   struct {
		Listen string
		// BaseDomain is the platform's own domain, lower case, without a dot at the end.
		BaseDomain string
	}
	NATS struct {
		// Listen is the embedded server's address.
		Listen string
		// URL of a NATS server or cluster to use in place of the embedded server; may hold a
		// password. Empty: the embedded one.
		URL string
		// Servers is the size of the NATS cluster at URL; 0 when not declared.
		Servers int
	}
	Telemetry struct{ Listen string }
	AWS       struct{ Region string }
	Locks     struct{ TTL time.Duration }
	Route53   struct{ Delegation Delegation }
	Log       struct {
		Level  slog.Level
		Format LogFormat
	}
}

// Delegation says when a public hosted zone is active.
type Delegation string

// The delegation modes.
const (
	DelegationTrust  Delegation = "trust"  // the first account that has the name, at once
	DelegationBase   Delegation = "base"   // when the platform's base zone delegates it
	DelegationPublic Delegation = "public" // when the public parent delegates it
)

// LogFormat is the form of log lines.
type LogFormat string

// The log formats.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// Host is what the defaults depend on.
type Host struct {
	Root     bool   // the process is root's
	Hostname string // may be anything; the default node name is made from it
	Home     string // the user's home directory
}

// Override is one value given on the command line.
type Override struct {
	Key   string // a setting's key, such as "node.name"
	Value string
	From  string // for messages, such as "--node"
}

// Source is where a configuration comes from.
type Source struct {
	// File is the TOML file. Empty: DefaultFile, which may be absent.
	File string
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Overrides are applied last.
	Overrides []Override
	Host      Host
}

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Key     string // "locks.ttl", or the unknown key
	Value   string // as it was given; a password is masked. Empty for an unknown key
	From    string // the file, the variable or the flag
	Problem string // what is wrong and what is allowed
}

// Error is one line.
func (f *Fault) Error() string {
	if f.Value == "" {
		return fmt.Sprintf("%s: %s: %s", f.From, f.Key, f.Problem)
	}
	return fmt.Sprintf("%s: %s = %q: %s", f.From, f.Key, f.Value, f.Problem)
}

// DefaultFile is the file that is read when none is named: /etc/spinifex/spinifex.toml for root, else
// spinifex/spinifex.toml in the user's configuration directory.
func DefaultFile(environ []string, host Host) string {
	if host.Root {
		return "/etc/spinifex/spinifex.toml"
	}
	return filepath.Join(xdg(environ, "XDG_CONFIG_HOME", host.Home, ".config"), "spinifex", "spinifex.toml")
}

func defaultDataDir(environ []string, host Host) string {
	if host.Root {
		return "/var/lib/spinifex"
	}
	return filepath.Join(xdg(environ, "XDG_DATA_HOME", host.Home, ".local/share"), "spinifex")
}

// xdg looks up a base directory; the specification says to ignore one that is not absolute.
func xdg(environ []string, name, home, fallback string) string {
	if dir := Lookup(environ, name); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(home, fallback)
}

// Lookup returns the value of a variable in an environment, "" when it is not set.
func Lookup(environ []string, name string) string {
	value := ""
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// Load reads and checks a configuration. The error joins one *Fault for everything that is wrong.
func Load(src Source) (*Config, error) {
	cfg := &Config{}
	var faults []error
	for _, s := range settings() {
		if err := s.set(cfg, s.defaultValue(src)); err != nil {
			faults = append(faults, s.fault(s.defaultValue(src), "default", err))
		}
	}
	fromFile, err := readFile(src)
	if err != nil {
		return nil, err
	}
	for _, values := range [][]given{fromFile, fromEnviron(src.Environ), fromOverrides(src.Overrides)} {
		for _, g := range values {
			if err := g.apply(cfg); err != nil {
				faults = append(faults, err)
			}
		}
	}
	if len(faults) == 0 {
		faults = append(faults, complete(cfg)...)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return cfg, nil
}

// given is one value from outside.
type given struct {
	key, value, from string
	problem          string // set when the value cannot even be a setting's
}

func (g given) apply(cfg *Config) error {
	known := settings()
	i := slices.IndexFunc(known, func(s setting) bool { return s.key == g.key })
	if i < 0 {
		return &Fault{Key: g.key, From: g.from, Problem: unknownKey(g.key)}
	}
	if g.problem != "" {
		return known[i].fault(g.value, g.from, errors.New(g.problem))
	}
	if err := known[i].set(cfg, g.value); err != nil {
		return known[i].fault(g.value, g.from, err)
	}
	return nil
}

func readFile(src Source) ([]given, error) {
	path, optional := src.File, false
	if path == "" {
		path, optional = DefaultFile(src.Environ, src.Host), true
	}
	file, err := os.Open(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("read the configuration: %s is larger than %d bytes", path, maxFile)
	}
	return parseFile(path, text)
}

func parseFile(path string, text []byte) ([]given, error) {
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := at.Position()
			return nil, fmt.Errorf("%s:%d:%d: %w", path, line, column, err)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var values []given
	flatten(path, "", tree, &values)
	slices.SortFunc(values, func(a, b given) int { return strings.Compare(a.key, b.key) })
	return values, nil
}

// flatten turns nested tables into keys with dots.
func flatten(path, prefix string, tree map[string]any, values *[]given) {
	for name, value := range tree {
		key := prefix + name
		switch v := value.(type) {
		case map[string]any:
			if len(v) == 0 && !isSection(key) {
				*values = append(*values, given{key: key, from: path})
			}
			flatten(path, key+".", v, values)
		case string:
			*values = append(*values, given{key: key, value: v, from: path})
		case int64:
			g := given{key: key, value: fmt.Sprint(v), from: path}
			if !isNumber(key) {
				g.problem = "is a number, want a text in quotes"
			}
			*values = append(*values, g)
		default:
			*values = append(*values, given{key: key, value: fmt.Sprint(v), from: path, problem: "want a text in quotes, or a whole number"})
		}
	}
}

// fromEnviron picks SPINIFEX_<SECTION>_<KEY>. Variables whose second word is no section are somebody
// else's; in a section, an unknown key is a fault.
func fromEnviron(environ []string) []given {
	var values []given
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		words, ok := strings.CutPrefix(name, EnvPrefix)
		if !ok {
			continue
		}
		section, key, _ := strings.Cut(strings.ToLower(words), "_")
		if isSection(section) {
			values = append(values, given{key: section + "." + key, value: value, from: name})
		}
	}
	return values
}

func fromOverrides(overrides []Override) []given {
	var values []given
	for _, o := range overrides {
		values = append(values, given{key: o.Key, value: o.Value, from: o.From})
	}
	return values
}

// complete fills what depends on other settings, and checks what no single setting shows.
func complete(cfg *Config) []error {
	var faults []error
	if cfg.Node.SealingKey == "" {
		cfg.Node.SealingKey = filepath.Join(cfg.Node.DataDir, "keys", "sealing.key")
	}
	if cfg.NATS.Servers != 0 && cfg.NATS.URL == "" {
		faults = append(faults, &Fault{
			Key: "nats.servers", Value: fmt.Sprint(cfg.NATS.Servers), From: "configuration",
			Problem: "declares the size of the NATS cluster at nats.url, which is not set",
		})
	}
	listens := []struct{ key, addr string }{
		{"awsgw.listen", cfg.AWSGW.Listen}, {"dns.listen", cfg.DNS.Listen},
		{"nats.listen", cfg.NATS.Listen}, {"telemetry.listen", cfg.Telemetry.Listen},
	}
	for i, a := range listens {
		for _, b := range listens[:i] {
			if _, port, _ := net.SplitHostPort(a.addr); a.addr == b.addr && port != "0" {
				faults = append(faults, &Fault{
					Key: a.key, Value: a.addr, From: "configuration", Problem: "is also the address of " + b.key,
				})
			}
		}
	}
	return faults
}
