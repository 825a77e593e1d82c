package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// openPatience is how long a cluster may take to form.
const openPatience = time.Minute

// Client is a connection of its own with the sync bucket on it, as a process of the platform has.
type Client struct {
	Conn   *nats.Conn
	JS     jetstream.JetStream
	Bucket *kvstore.Bucket
}

// Connect connects to the servers, the first of urls that answers, and opens the sync bucket, which it
// creates with that many replicas when there is none.
func Connect(ctx context.Context, replicas int, urls []string, opts ...kvstore.Option) (*Client, error) {
	nopts := nats.GetDefaultOptions()
	nopts.Servers, nopts.NoRandomize = urls, true
	nopts.ReconnectBufSize, nopts.MaxReconnect, nopts.ReconnectWait = -1, -1, 100*time.Millisecond
	conn, err := nopts.Connect()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	size, err := clustersize.Declare(replicas)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c := &Client{Conn: conn, JS: js, Bucket: kvstore.OpenSyncBucket(js, append(opts, kvstore.WithSize(size))...)}
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	for {
		if _, err = c.Bucket.KV(ctx); err == nil {
			return c, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			conn.Close()
			return nil, fmt.Errorf("the sync bucket does not open: %w", err)
		}
	}
}

// Close closes the connection.
func (c *Client) Close() { c.Conn.Close() }

// stream is the stream of the sync bucket.
func (c *Client) stream(ctx context.Context) (jetstream.Stream, error) {
	return c.JS.Stream(ctx, "KV_"+kvstore.SyncBucket)
}

// Leader returns the name of the server that leads the sync bucket.
func (c *Client) Leader(ctx context.Context) (string, error) {
	stream, err := c.stream(ctx)
	if err != nil {
		return "", err
	}
	return stream.CachedInfo().Cluster.Leader, nil
}

// Writes returns how many writes the sync bucket has seen, counted from some beginning.
func (c *Client) Writes(ctx context.Context) (uint64, error) {
	stream, err := c.stream(ctx)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// Raw returns a key of the sync bucket to write without a lease. It reads what the key's revision is.
func (c *Client) Raw(ctx context.Context, key string) (*RawKey, error) {
	stream, err := c.stream(ctx)
	if err != nil {
		return nil, err
	}
	return &RawKey{js: c.JS, stream: stream, subject: "$KV." + kvstore.SyncBucket + "." + key}, nil
}

// RawKey writes one subject with the revision it knows, as a lease does, without the lease.
type RawKey struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	subject string
	rev     uint64
}

// Read asks the stream's leader, as a lease does for a key that it does not know.
func (r *RawKey) Read(ctx context.Context) error {
	_, err := r.stream.GetLastMsgForSubject(ctx, r.subject)
	return err
}

// CAS writes as many bytes as a lease's record has.
func (r *RawKey) CAS(ctx context.Context) error {
	return r.publish(ctx, &nats.Msg{Subject: r.subject, Data: make([]byte, 160)})
}

// Delete writes a delete marker.
func (r *RawKey) Delete(ctx context.Context) error {
	return r.publish(ctx, &nats.Msg{Subject: r.subject, Header: nats.Header{"KV-Operation": {"DEL"}}})
}

func (r *RawKey) publish(ctx context.Context, msg *nats.Msg) error {
	ack, err := r.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(r.rev), jetstream.WithRetryAttempts(0))
	if err != nil {
		return err
	}
	r.rev = ack.Sequence
	return nil
}

// Pair acquires a lease that is free and releases it.
func Pair(ctx context.Context, lease *kvsync.Lease) error {
	token, err := lease.TryLock(ctx)
	if err != nil {
		return err
	}
	lease.Unlock(ctx, token)
	return nil
}

// Timed appends how long op takes.
func Timed(into *[]time.Duration, op func() error) error {
	start := time.Now()
	err := op()
	*into = append(*into, time.Since(start))
	return err
}
