package dns

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/route53"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/process"
	"github.com/mulgadc/spinifex/internal/testkit"
)

var out = flag.String("out", "", "directory to keep the result in; empty keeps nothing")

const (
	zoneName = "bench.example."
	records  = 1000
	rounds   = 3
	// roundTime in seconds: rounds of it bound each server's share to less than 10 s.
	roundTime = 3
	// wantedShare of nsd's answers per second.
	wantedShare = 0.5
)

// figures are what one round of dnsperf reports.
type figures struct {
	rate, latency float64 // answers per second; mean seconds
	lost          int
}

func BenchmarkAnswersAgainstNSD(b *testing.B) {
	bin, err := process.Build(b.Context(), b.TempDir(), "./cmd/spinifex")
	require.NoError(b, err)
	ours := cloud.Start(b, cloud.Options{Binary: bin})
	fillZone(b, ours)
	nsdAddr := startNSD(b)
	waitAnswer(b, ours.DNS)
	waitAnswer(b, nsdAddr)

	queries := queryFile(b)
	var oursRounds, nsdRounds []figures
	for range rounds {
		oursRounds = append(oursRounds, dnsperf(b, ours.DNS, queries))
		nsdRounds = append(nsdRounds, dnsperf(b, nsdAddr, queries))
	}
	mine, peer := median(oursRounds), median(nsdRounds)
	b.ReportMetric(mine.rate, "answers/s")
	b.ReportMetric(mine.rate/peer.rate, "of-nsd")
	page := report.Report{
		Name: "dns",
		Setup: []string{
			fmt.Sprintf("%d A records in one zone, %d rounds of %d s each in turn, medians", records, rounds, roundTime),
			"dnsperf -c 8 -T 1 -q 200 on the same machine, UDP over loopback",
			"spinifex up with everything that a one-node cloud runs; nsd of Debian, one server per CPU, no rate limit",
		},
		Columns: []string{"server", "answers/s", "mean latency", "lost"},
		Rows: [][]string{
			row("spinifex", mine),
			row("nsd", peer),
		},
		Goals: []report.Goal{{What: "answers per second of nsd's", Value: mine.rate / peer.rate, Limit: wantedShare, AtLeast: true}},
	}
	require.NoError(b, page.Publish(*out))
}

func row(name string, f figures) []string {
	latency := time.Duration(f.latency * float64(time.Second))
	return []string{name, fmt.Sprintf("%.0f", f.rate), latency.Round(time.Microsecond).String(), strconv.Itoa(f.lost)}
}

func median(all []figures) figures {
	slices.SortFunc(all, func(a, b figures) int { return cmp.Compare(a.rate, b.rate) })
	return all[len(all)/2]
}

func hostName(i int) string { return fmt.Sprintf("h%d.%s", i, zoneName) }

func address(i int) string { return fmt.Sprintf("10.0.%d.%d", i/250, i%250+1) }

// fillZone makes the zone with the API and waits until the server answers with it.
func fillZone(b *testing.B, node *cloud.Node) {
	b.Helper()
	client := route53.New(node.Session())
	zone, err := client.CreateHostedZoneWithContext(b.Context(), &route53.CreateHostedZoneInput{
		Name: aws.String(zoneName), CallerReference: aws.String("bench"),
	})
	require.NoError(b, err)
	batch := &route53.ChangeBatch{}
	for i := range records {
		batch.Changes = append(batch.Changes, &route53.Change{
			Action: aws.String(route53.ChangeActionCreate),
			ResourceRecordSet: &route53.ResourceRecordSet{
				Name: aws.String(hostName(i)), Type: aws.String(route53.RRTypeA), TTL: aws.Int64(300),
				ResourceRecords: []*route53.ResourceRecord{{Value: aws.String(address(i))}},
			},
		})
	}
	change, err := client.ChangeResourceRecordSetsWithContext(b.Context(), &route53.ChangeResourceRecordSetsInput{
		HostedZoneId: zone.HostedZone.Id, ChangeBatch: batch,
	})
	require.NoError(b, err)
	testkit.Eventually(b, 30*time.Second, func() (bool, string) {
		state, err := client.GetChangeWithContext(b.Context(), &route53.GetChangeInput{Id: change.ChangeInfo.Id})
		if err != nil {
			return false, err.Error()
		}
		return aws.StringValue(state.ChangeInfo.Status) == route53.ChangeStatusInsync, aws.StringValue(state.ChangeInfo.Status)
	})
}

// startNSD serves the same records with nsd.
func startNSD(b *testing.B) (addr string) {
	b.Helper()
	dir := b.TempDir()
	var zone strings.Builder
	fmt.Fprintf(&zone, "$ORIGIN %[1]s\n$TTL 300\n@ SOA ns1.%[1]s admin.%[1]s 1 7200 900 1209600 300\n@ NS ns1.%[1]s\nns1 A 127.0.0.1\n", zoneName)
	for i := range records {
		fmt.Fprintf(&zone, "%s A %s\n", hostName(i), address(i))
	}
	require.NoError(b, os.WriteFile(filepath.Join(dir, "zone"), []byte(zone.String()), 0o600))
	addr = cloud.FreeAddr(b)
	host, port, err := net.SplitHostPort(addr)
	require.NoError(b, err)
	config := fmt.Sprintf(`server:
  ip-address: %s
  port: %s
  server-count: %d
  username: ""
  chroot: ""
  zonesdir: "%[4]s"
  database: ""
  pidfile: "%[4]s/pid"
  xfrdir: "%[4]s"
  xfrdfile: ""
  zonelistfile: "%[4]s/zones"
  rrl-ratelimit: 0
  hide-version: yes
remote-control:
  control-enable: no
zone:
  name: %[5]s
  zonefile: zone
`, host, port, runtime.NumCPU(), dir, zoneName)
	file := filepath.Join(dir, "nsd.conf")
	require.NoError(b, os.WriteFile(file, []byte(config), 0o600))
	p, err := process.Start(process.Options{Path: program(b, "nsd"), Args: []string{"-d", "-c", file}})
	require.NoError(b, err)
	// nsd's parent ends its children on SIGTERM only.
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 5*time.Second)
		defer cancel()
		_ = p.Stop(ctx)
	})
	return addr
}

// program finds a program that a package may have put where only root looks.
func program(b *testing.B, name string) string {
	b.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path := filepath.Join("/usr/sbin", name)
	_, err := os.Stat(path)
	require.NoError(b, err, "run scripts/apt-install bench")
	return path
}

// waitAnswer waits until a server answers with the last record, rightly.
func waitAnswer(b *testing.B, addr string) {
	b.Helper()
	query := new(dns.Msg).SetQuestion(hostName(records-1), dns.TypeA)
	client := &dns.Client{Timeout: time.Second}
	testkit.Eventually(b, 20*time.Second, func() (bool, string) {
		answer, _, err := client.ExchangeContext(b.Context(), query, addr)
		if err != nil {
			return false, err.Error()
		}
		ok := answer.Authoritative && len(answer.Answer) == 1 && strings.HasSuffix(answer.Answer[0].String(), address(records-1))
		return ok, answer.String()
	})
}

// queryFile asks for every name, in an order that is neither the zone's nor random.
func queryFile(b *testing.B) string {
	b.Helper()
	var text strings.Builder
	for i := range records {
		fmt.Fprintf(&text, "%s A\n", hostName(i*389%records))
	}
	file := filepath.Join(b.TempDir(), "queries")
	require.NoError(b, os.WriteFile(file, []byte(text.String()), 0o600))
	return file
}

var (
	rateLine    = regexp.MustCompile(`Queries per second:\s+([0-9.]+)`)
	latencyLine = regexp.MustCompile(`Average Latency \(s\):\s+([0-9.]+)`)
	lostLine    = regexp.MustCompile(`Queries lost:\s+(\d+)`)
	codesLine   = regexp.MustCompile(`Response codes:\s+(.*)`)
)

// dnsperf runs one round and refuses one in which a server answered anything but NOERROR.
func dnsperf(b *testing.B, addr, queries string) figures {
	b.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(b, err)
	cmd := exec.CommandContext(b.Context(), program(b, "dnsperf"),
		"-s", host, "-p", port, "-d", queries, "-c", "8", "-T", "1", "-q", "200", "-l", strconv.Itoa(roundTime))
	text, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", text)
	codes := field(b, text, codesLine)
	require.Regexp(b, `^NOERROR \d+ \(100\.00%\)$`, codes)
	lost, err := strconv.Atoi(field(b, text, lostLine))
	require.NoError(b, err)
	return figures{rate: number(b, text, rateLine), latency: number(b, text, latencyLine), lost: lost}
}

func number(b *testing.B, text []byte, line *regexp.Regexp) float64 {
	b.Helper()
	n, err := strconv.ParseFloat(field(b, text, line), 64)
	require.NoError(b, err)
	return n
}

func field(b *testing.B, text []byte, line *regexp.Regexp) string {
	b.Helper()
	m := line.FindSubmatch(text)
	require.NotNil(b, m, "%s in %s", line, text)
	return strings.TrimSpace(string(m[1]))
}
