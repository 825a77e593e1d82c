package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mulgadc/spinifex/runtime/daemon"
	"github.com/mulgadc/spinifex/runtime/node"
)

func newUp(a *app) *cobra.Command {
	return a.roleCommand("up", "Run every role of a node and print the settings for AWS clients",
		node.RoleNATS, node.RoleDaemon, node.RoleDNS, node.RoleAWSGW)
}

func newDaemon(a *app) *cobra.Command {
	return a.roleCommand("daemon", "Run the daemon and, without nats.url, the node's NATS server", node.RoleNATS, node.RoleDaemon)
}

func newAWSGW(a *app) *cobra.Command {
	return a.roleCommand("awsgw", "Run the gateway: AWS's APIs over HTTP", node.RoleAWSGW)
}

func newDNS(a *app) *cobra.Command {
	return a.roleCommand("dns", "Run the DNS server", node.RoleDNS)
}

// roleCommand makes a command that runs roles until a signal comes.
func (a *app) roleCommand(name, short string, roles ...node.Role) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runRoles(cmd.Context(), roles) },
	}
}

func (a *app) runRoles(ctx context.Context, roles []node.Role) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	log := a.logger(cfg)
	slog.SetDefault(log) // for libraries that take no logger, such as kvsync
	return failed(daemon.Run(ctx, daemon.Options{
		Config: cfg, Roles: roles, Version: thisBuild().Version, Log: log, Ready: a.printSettings,
	}))
}

// printSettings says how AWS clients reach the cloud, in a form that a shell evaluates.
func (a *app) printSettings(info daemon.Info) {
	c := info.Client
	if c.Endpoint == "" {
		return
	}
	settings := map[string]string{
		"AWS_CONFIG_FILE": c.ConfigFile, "AWS_SHARED_CREDENTIALS_FILE": c.CredentialsFile,
		"AWS_PROFILE": c.Profile, "AWS_ENDPOINT_URL": c.Endpoint,
	}
	// Who started the process may have closed its output; it runs on all the same.
	_ = a.print(settings, func(w io.Writer) { fmt.Fprint(w, c.Exports()) })
}
