package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mulgadc/spinifex/foundation/config"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/telemetry"
	"github.com/mulgadc/spinifex/runtime/node"
)

// connectTimeout bounds how long a command that looks at a cloud tries to reach it.
const connectTimeout = 5 * time.Second

// app is what the commands share: the outside world and the flags that all have.
type app struct {
	environ        []string
	host           config.Host
	stdout, stderr io.Writer

	configFile, dataDir, nats, node, output string
}

func thisHost() config.Host {
	hostname, _ := os.Hostname() // the default name is then "node"
	home, _ := os.UserHomeDir()  // the default directory is then relative, and refused where it matters
	return config.Host{Root: os.Geteuid() == 0, Hostname: hostname, Home: home}
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "spinifex",
		Short: "An AWS-compatible private cloud in one binary",
		Long: `An AWS-compatible private cloud in one binary.

"spinifex up" starts a one-node cloud. Settings come from spinifex.toml, from variables
SPINIFEX_<SECTION>_<KEY> and from flags, each overriding the one before.

Exit status: 0 done, 1 it failed, 2 the command line or the configuration is wrong,
130 ended by a second signal while it was stopping.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.output != "text" && a.output != "json" {
				return fmt.Errorf("--output = %q: want text or json", a.output)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", "", "configuration file (SPINIFEX_CONFIG; default "+config.DefaultFile(a.environ, a.host)+", if it exists)")
	flags.StringVar(&a.dataDir, "data-dir", "", "data directory of the node (node.data_dir)")
	flags.StringVar(&a.nats, "nats", "", "NATS server or cluster to use in place of the embedded server (nats.url)")
	flags.StringVar(&a.node, "node", "", "name of the node (node.name)")
	flags.StringVar(&a.output, "output", "text", "text or json")
	for _, c := range []*cobra.Command{newUp(a), newDaemon(a), newAWSGW(a), newDNS(a), newLocks(a), newBucket(a), newVersion(a)} {
		root.AddCommand(c)
	}
	return root
}

// load reads the configuration. Its errors are those of usage.
func (a *app) load() (*config.Config, error) {
	src := config.Source{File: a.configFile, Environ: a.environ, Host: a.host}
	if src.File == "" {
		src.File = config.Lookup(a.environ, config.EnvPrefix+"CONFIG")
	}
	for _, o := range []config.Override{
		{Key: "node.data_dir", Value: a.dataDir, From: "--data-dir"},
		{Key: "nats.url", Value: a.nats, From: "--nats"},
		{Key: "node.name", Value: a.node, From: "--node"},
	} {
		if o.Value != "" {
			src.Overrides = append(src.Overrides, o)
		}
	}
	return config.Load(src)
}

func (a *app) logger(cfg *config.Config) *slog.Logger {
	return telemetry.NewLogger(a.stderr, cfg.Log.Level, cfg.Log.Format == config.LogJSON)
}

// connect connects a command to the cloud: at nats.url, or to the embedded server of the data directory.
func (a *app) connect(ctx context.Context, cfg *config.Config) (*messaging.Conn, error) {
	// A lock that is broken must not be written by a buffer after the command has given up.
	opts := messaging.Options{Name: cfg.Node.Name + "/cli", URL: cfg.NATS.URL, NoReconnectBuffer: true}
	if opts.URL == "" {
		client, err := node.ReadClient(cfg.Node.DataDir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, failed(fmt.Errorf("no NATS server has run in %s yet: start spinifex up, or name another place with --data-dir or --nats", cfg.Node.DataDir))
		}
		if err != nil {
			return nil, failed(err)
		}
		opts.URL, opts.User, opts.Password = client.URL, client.User, client.Password
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no answer from %s within %v, is it running?", config.RedactURL(opts.URL), connectTimeout))
	defer cancel()
	conn, err := messaging.Connect(ctx, opts)
	return conn, failed(err)
}

// withCloud loads the configuration, connects and runs a command.
func (a *app) withCloud(ctx context.Context, do func(cfg *config.Config, conn *messaging.Conn) error) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	conn, err := a.connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(cfg, conn)
}
