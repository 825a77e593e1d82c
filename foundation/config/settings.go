package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of values.
const (
	minTTL = 3 * time.Second
	maxTTL = 10 * time.Minute
)

// setting is one line of the list of settings.
type setting struct {
	key string // section and name, with a dot between them
	// def is the default; deflt replaces it where it depends on the host.
	def    string
	deflt  func(Source) string
	number bool // may be given as a number in the file
	secret func(string) string
	set    func(cfg *Config, value string) error
}

// settings lists every setting there is.
//
// The default region is us-east-1 because clients sign the calls of global services (Route 53, IAM)
// for us-east-1 whatever their region is: with this default, one region serves everything.
func settings() []setting {
	return []setting{
		{key: "node.name", deflt: func(src Source) string { return nodeName(src.Host.Hostname) }, set: setNodeName},
		{key: "node.data_dir", deflt: func(src Source) string { return defaultDataDir(src.Environ, src.Host) }, set: func(c *Config, v string) error {
			return setPath(&c.Node.DataDir, v)
		}},
		{key: "node.sealing_key", set: func(c *Config, v string) error {
			if v == "" {
				return nil // <data_dir>/keys/sealing.key, see complete
			}
			return setPath(&c.Node.SealingKey, v)
		}},
		{key: "awsgw.listen", def: "127.0.0.1:9999", set: func(c *Config, v string) error { return setListen(&c.AWSGW.Listen, v) }},
		{key: "dns.listen", def: "127.0.0.1:1053", set: func(c *Config, v string) error { return setListen(&c.DNS.Listen, v) }},
		{key: "dns.base_domain", def: "spinifex.internal", set: setBaseDomain},
		{key: "nats.listen", def: "127.0.0.1:4222", set: func(c *Config, v string) error { return setListen(&c.NATS.Listen, v) }},
		{key: "nats.url", secret: RedactURL, set: setNATSURL},
		{key: "nats.servers", def: "0", number: true, set: setServers},
		{key: "telemetry.listen", def: "127.0.0.1:9464", set: func(c *Config, v string) error { return setListen(&c.Telemetry.Listen, v) }},
		{key: "aws.region", def: "us-east-1", set: setRegion},
		{key: "locks.ttl", def: "20s", set: setTTL},
		{key: "route53.delegation", def: string(DelegationTrust), set: func(c *Config, v string) error {
			return setChoice(&c.Route53.Delegation, v, DelegationTrust, DelegationBase, DelegationPublic)
		}},
		{key: "log.level", def: "info", set: setLevel},
		{key: "log.format", def: string(LogText), set: func(c *Config, v string) error {
			return setChoice(&c.Log.Format, v, LogText, LogJSON)
		}},
	}
}

func (s setting) defaultValue(src Source) string {
	if s.deflt != nil {
		return s.deflt(src)
	}
	return s.def
}

func (s setting) fault(value, from string, err error) *Fault {
	if s.secret != nil {
		value = s.secret(value)
	}
	return &Fault{Key: s.key, Value: value, From: from, Problem: err.Error()}
}

func isSection(name string) bool {
	return slices.ContainsFunc(settings(), func(s setting) bool { return strings.HasPrefix(s.key, name+".") })
}

func isNumber(key string) bool {
	return slices.ContainsFunc(settings(), func(s setting) bool { return s.key == key && s.number })
}

// unknownKey says what is known instead: the nearest key, and everything of the section.
func unknownKey(key string) string {
	section, _, _ := strings.Cut(key, ".")
	var all, same []string
	for _, s := range settings() {
		all = append(all, s.key)
		if strings.HasPrefix(s.key, section+".") {
			same = append(same, s.key)
		}
	}
	known := all
	if len(same) > 0 {
		known = same
	}
	msg := "unknown key"
	if near := nearest(key, all); near != "" {
		msg += ", did you mean " + near + "?"
	}
	return msg + "; known are " + strings.Join(known, ", ")
}

// nearest returns the candidate that differs least from word, "" when none is near.
func nearest(word string, candidates []string) string {
	best, bestDistance := "", len(word)/3+2
	for _, c := range candidates {
		if d := editDistance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance is the number of letters to insert, delete or replace.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	regionPattern = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
)

// nodeName makes a node name of a host name: its first label, with dashes for what is not allowed.
func nodeName(hostname string) string {
	label, _, _ := strings.Cut(strings.ToLower(hostname), ".")
	label = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, label)
	label = strings.Trim(label[:min(len(label), 63)], "-")
	if label == "" {
		return "node"
	}
	return label
}

func setNodeName(c *Config, v string) error {
	if !namePattern.MatchString(v) {
		return errors.New("want 1 to 63 lower-case letters, digits and dashes, no dash first or last")
	}
	c.Node.Name = v
	return nil
}

func setPath(field *string, v string) error {
	if v == "" || strings.ContainsRune(v, 0) {
		return errors.New("want a path")
	}
	abs, err := filepath.Abs(v)
	if err != nil {
		return fmt.Errorf("want a path: %w", err)
	}
	*field = abs
	return nil
}

func setListen(field *string, v string) error {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return errors.New("want ADDRESS:PORT, such as 127.0.0.1:9999 or [::1]:9999")
	}
	if host != "" && host != "localhost" {
		if _, err := netip.ParseAddr(host); err != nil {
			return errors.New("want an IP address, localhost or nothing before the port")
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return errors.New("want a port from 1 to 65535, or 0 for any that is free")
	}
	*field = v
	return nil
}

// DialAddr is where a process of this machine reaches what listens at host:port: on the loopback address
// when that listens on all.
func DialAddr(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1" // a listener of [::] has IPv4, too
	}
	return net.JoinHostPort(host, port)
}

func setBaseDomain(c *Config, v string) error {
	name := strings.TrimSuffix(strings.ToLower(v), ".")
	if len(name) > 200 {
		return errors.New("want a domain name of at most 200 characters, so that names below it fit")
	}
	labels := strings.Split(name, ".")
	if len(labels) < 2 {
		return errors.New("want a domain name of at least two labels, such as spinifex.internal")
	}
	for _, label := range labels {
		if !namePattern.MatchString(label) {
			return errors.New("want a domain name: labels of 1 to 63 letters, digits and dashes, with dots between them")
		}
	}
	c.DNS.BaseDomain = name
	return nil
}

func setNATSURL(c *Config, v string) error {
	if v == "" {
		c.NATS.URL = ""
		return nil
	}
	for one := range strings.SplitSeq(v, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return errors.New("want nats://[user:password@]host[:port] or tls://…, several with commas between them")
		}
		if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || n == 0) {
			return errors.New("want ports from 1 to 65535")
		}
	}
	c.NATS.URL = v
	return nil
}

// RedactURL masks the secrets in a list of URLs, for messages: passwords, and a user without one, which
// NATS takes for a token.
func RedactURL(list string) string {
	var out []string
	for one := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case err == nil && u.Host != "":
			if _, has := u.User.Password(); u.User != nil && !has {
				u.User = url.User("xxxxx")
			}
			out = append(out, u.Redacted())
		case strings.Contains(one, "@"):
			out = append(out, "…@"+one[strings.LastIndex(one, "@")+1:])
		default:
			out = append(out, one)
		}
	}
	return strings.Join(out, ",")
}

func setServers(c *Config, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > 1000 {
		return errors.New("want the number of servers of the NATS cluster, 1 to 1000, or 0 when it is no cluster")
	}
	c.NATS.Servers = n
	return nil
}

func setRegion(c *Config, v string) error {
	if len(v) > 40 || !regionPattern.MatchString(v) {
		return errors.New("want a region name of at most 40 lower-case letters, digits and dashes, such as us-east-1")
	}
	c.AWS.Region = v
	return nil
}

func setTTL(c *Config, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < minTTL || d > maxTTL {
		return fmt.Errorf("want a duration from %v to %v, such as 20s", minTTL, maxTTL)
	}
	c.Locks.TTL = d
	return nil
}

func setLevel(c *Config, v string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[v]
	if !ok {
		return errors.New("want one of debug, info, warn, error")
	}
	c.Log.Level = level
	return nil
}

func setChoice[T ~string](field *T, v string, allowed ...T) error {
	if !slices.Contains(allowed, T(v)) {
		var names []string
		for _, a := range allowed {
			names = append(names, string(a))
		}
		return errors.New("want one of " + strings.Join(names, ", "))
	}
	*field = T(v)
	return nil
}
