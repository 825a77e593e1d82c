package testkit

import (
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// clusterTimeout bounds the forming of a cluster: an election with the server's own timers takes
// 4 to 9 s, and a lost first round is repeated.
const clusterTimeout = 40 * time.Second

// Cluster is a JetStream cluster in this process, its servers joined over loopback.
type Cluster struct {
	t       testing.TB
	opts    []server.Options
	Servers []*server.Server
}

// StartTestCluster starts a JetStream cluster of n servers with a directory each and waits until
// all are ready to place replicas. It takes 1 to 10 s, so a package shares one between its tests.
func StartTestCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	// A clustered JetStream server refuses to start without the addresses of its peers, so they must be
	// known before the first one listens.
	ports := FreePorts(t, n)
	var routes []*url.URL
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i, port := range ports {
		c.opts = append(c.opts, server.Options{
			ServerName: fmt.Sprintf("n%d", i+1),
			Host:       "127.0.0.1",
			Port:       server.RANDOM_PORT,
			JetStream:  true,
			StoreDir:   t.TempDir(),
			Cluster:    server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port},
			Routes:     routes,
		})
		opts := c.opts[i]
		c.Servers = append(c.Servers, StartTestServer(t, &opts))
	}
	c.waitReady()
	return c
}

// FreePorts returns n ports of 127.0.0.1 that are free for TCP and UDP at this moment.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for len(ports) < n {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer tcp.Close() // held until all are chosen, so that none is chosen twice
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		if err != nil {
			continue
		}
		defer udp.Close()
		ports = append(ports, tcp.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// waitReady waits until a meta leader knows every server as a current peer.
func (c *Cluster) waitReady() {
	c.t.Helper()
	Eventually(c.t, clusterTimeout, func() (bool, string) {
		for _, srv := range c.Servers {
			if !srv.JetStreamIsLeader() {
				continue
			}
			peers := len(srv.JetStreamClusterPeers())
			return peers == len(c.Servers), fmt.Sprintf("%s leads %d peers", srv.Name(), peers)
		}
		return false, "no meta leader"
	})
}

// Connect connects to server i within the process.
func (c *Cluster) Connect(t testing.TB, i int, opts ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn := Connect(t, c.Servers[i], opts...)
	return conn, NewJetStream(t, conn)
}

// Restart stops server i and starts it again on its directory.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	StopServer(c.Servers[i])
	opts := c.opts[i]
	c.Servers[i] = StartTestServer(c.t, &opts)
}

// StreamLeader returns the index of the server that leads the stream in the default account, or -1.
func (c *Cluster) StreamLeader(stream string) int {
	for i, srv := range c.Servers {
		if srv.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return i
		}
	}
	return -1
}
