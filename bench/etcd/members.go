package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/mulgadc/spinifex/bench/locks"
	"github.com/mulgadc/spinifex/internal/process"
)

// children are what this program is when it runs itself: by name, what runs with the arguments behind.
func children() map[string]func(context.Context, []string) error {
	return map[string]func(context.Context, []string) error{
		"member": member,
		"holder": holder,
		"group":  groupHolder,
	}
}

// child starts this program as the named child.
func child(name string, args ...string) (*process.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return process.Start(process.Options{Path: self, Args: append([]string{name}, args...)})
}

// untilTold waits for the end of ctx or of standard input: a child does not outlive its parent.
func untilTold(ctx context.Context) {
	orphaned := make(chan struct{})
	go func() {
		defer close(orphaned)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ctx.Done():
	case <-orphaned:
	}
}

// member is the child that runs one etcd member.
func member(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("member", flag.ContinueOnError)
	name := flags.String("name", "", "name of the member")
	dir := flags.String("dir", "", "directory of its data")
	client := flags.String("client", "", "URL for clients")
	peer := flags.String("peer", "", "URL for members")
	cluster := flags.String("cluster", "", "all members, as name=URL,name=URL")
	if err := flags.Parse(args); err != nil {
		return err
	}
	clientURL, err := url.Parse(*client)
	if err != nil {
		return err
	}
	peerURL, err := url.Parse(*peer)
	if err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogLevel, cfg.InitialCluster = *name, *dir, "error", *cluster
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer etcd.Close()
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	fmt.Println("ready", *client)
	untilTold(ctx)
	return nil
}

// members are an etcd cluster, each member a process of its own.
type members struct {
	urls  []string
	procs []*process.Process
}

// startMembers starts n members with their data below dir.
func startMembers(ctx context.Context, dir string, n int) (*members, error) {
	ports, err := locks.FreePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var cluster []string
	for i := range n {
		cluster = append(cluster, fmt.Sprintf("m%d=http://127.0.0.1:%s", i, ports[n+i]))
	}
	m := &members{}
	for i := range n {
		p, err := child("member", "-name", fmt.Sprintf("m%d", i), "-dir", filepath.Join(dir, strconv.Itoa(i)),
			"-client", "http://127.0.0.1:"+ports[i], "-peer", "http://127.0.0.1:"+ports[n+i], "-cluster", strings.Join(cluster, ","))
		if err != nil {
			m.stop()
			return nil, err
		}
		m.procs = append(m.procs, p)
	}
	for _, p := range m.procs {
		url, err := locks.Ready(ctx, p)
		if err != nil {
			m.stop()
			return nil, err
		}
		m.urls = append(m.urls, url)
	}
	return m, nil
}

func (m *members) stop() {
	for _, p := range m.procs {
		_ = p.Kill()
	}
}

// client connects to member i and to no other.
func (m *members) client(i int) (*clientv3.Client, error) { return etcdClient(m.urls[i]) }

func etcdClient(url string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// etcdKey writes one key by compare-and-swap with the revision it knows.
type etcdKey struct {
	client *clientv3.Client
	key    string
	rev    int64
}

func (k *etcdKey) cas(ctx context.Context) error {
	resp, err := k.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(k.key), "=", k.rev)).
		Then(clientv3.OpPut(k.key, strings.Repeat("x", 160))).Commit()
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		return errors.New("etcd refused a transaction at the last revision")
	}
	k.rev = resp.Header.Revision
	return nil
}
