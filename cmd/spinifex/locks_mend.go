package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mulgadc/spinifex/foundation/config"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/runtime/daemon"
)

func newLocksTransfer(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "transfer KEY --to NODE", Short: "Move a lease to another node, without a pause", Args: cobra.ExactArgs(1),
		Long: `Move a lease to another node, without a pause.

The holder is asked to stop its work and, when it has stopped, gives the key to the same role of
the other node, which confirms at once. The other node must be one that wants the key.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLocks(cmd.Context(), func(l *daemon.LockBook) error {
				lock, err := l.Transfer(cmd.Context(), args[0], to)
				if err != nil {
					return failed(err)
				}
				return a.print(lock, func(w io.Writer) {
					fmt.Fprintf(w, "%s is held by %s at generation %d\n", lock.Key, lock.Holder, lock.Generation)
				})
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the node that is to hold the key")
	_ = cmd.MarkFlagRequired("to") // fails only for a flag that does not exist
	return cmd
}

func newLocksDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say what is wrong with the locks and what mends it; status 1 when something is", Args: cobra.NoArgs,
		Long: `Say what is wrong with the bucket of the locks, with what processes remember of it, and with who
holds them: a line each, with the command that mends it. Nothing is changed.

Lines that begin with "note" weaken the locks without being wrong, and leave the status at 0.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withCloud(cmd.Context(), func(cfg *config.Config, conn *messaging.Conn) error {
				size, err := daemon.DeclaredSize(cfg)
				if err != nil {
					return err
				}
				found, err := daemon.NewLockBook(conn).Doctor(cmd.Context(), size)
				if err != nil {
					return failed(err)
				}
				if found == nil {
					found = []daemon.Finding{}
				}
				faults := 0
				for _, f := range found {
					if f.Fault {
						faults++
					}
				}
				if err := a.print(found, func(w io.Writer) { printFindings(w, found, faults) }); err != nil {
					return err
				}
				if faults > 0 {
					return failed(fmt.Errorf("%d faults", faults))
				}
				return nil
			})
		},
	}
}

func printFindings(w io.Writer, found []daemon.Finding, faults int) {
	for _, f := range found {
		kind := "note"
		if f.Fault {
			kind = "fault"
		}
		fmt.Fprintf(w, "%s: %s -> %s\n", kind, f.What, f.Mend)
	}
	if faults == 0 {
		fmt.Fprintln(w, "the locks are well")
	}
}

func newLocksRebuild(a *app) *cobra.Command {
	var yes, force bool
	cmd := &cobra.Command{
		Use: "rebuild --yes", Short: "Make the bucket of the locks anew after it was lost or went back in time", Args: cobra.NoArgs,
		Long: `Make the bucket of the locks anew, above every generation that a live process remembers and that
any bucket is fenced with. Start every daemon that can run first: what only a stopped one remembers
is not known.

The old bucket is deleted, the longest time to live goes by, so that whoever is cut off has stopped
believing in a lease, and the new one is made. Leases are then acquired again by themselves, without
a restart; claims are listed and are gone. A bucket that is healthy is refused without --force.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return errors.New("--yes is missing: this deletes every lock of the cloud")
			}
			return a.withCloud(cmd.Context(), func(cfg *config.Config, conn *messaging.Conn) error {
				size, err := daemon.DeclaredSize(cfg)
				if err != nil {
					return err
				}
				done, err := daemon.NewLockBook(conn).Rebuild(cmd.Context(), daemon.RebuildOptions{
					Size: size, TTL: cfg.Locks.TTL, Force: force,
					Wait: func(d time.Duration) {
						fmt.Fprintf(a.stderr, "spinifex: the old bucket is deleted, the new one is made in %s\n", d)
					},
				})
				if errors.Is(err, daemon.ErrHealthy) {
					return failed(fmt.Errorf("%w: see spinifex locks doctor; --force rebuilds it all the same", err))
				}
				if err != nil {
					return failed(err)
				}
				return a.print(done, func(w io.Writer) {
					fmt.Fprintf(w, "rebuilt, the first generation is %d\n", done.FirstSequence)
					fmt.Fprintf(w, "leases that are acquired again: %s\n", dash(strings.Join(done.Leases, " ")))
					fmt.Fprintf(w, "claims that are gone: %s\n", dash(strings.Join(done.Claims, " ")))
				})
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "really do it")
	cmd.Flags().BoolVar(&force, "force", false, "also when nothing asks for it")
	return cmd
}
