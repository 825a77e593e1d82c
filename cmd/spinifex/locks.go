package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mulgadc/spinifex/foundation/config"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/runtime/daemon"
)

// watchAgain is the pause after a watch has broken.
const watchAgain = time.Second

func newLocks(a *app) *cobra.Command {
	locks := &cobra.Command{
		Use: "locks", Short: "Look at the leases and claims of the cloud, and mend them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	locks.AddCommand(newLocksLs(a), newLocksWatch(a), newLocksShow(a), newLocksBreak(a), newLocksTransfer(a), newLocksDoctor(a), newLocksRebuild(a))
	return locks
}

func newLocksLs(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List every lock with its holder", Args: cobra.NoArgs,
		Long: `List every lock with its holder, generation, age and time left.

AGE is how long the holder has held the key, LEFT how much longer it may believe so without
another renewal; both are what the holder itself answers within half a second. "unanswered"
means that nobody holds the key with this generation as far as anybody says.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLocks(cmd.Context(), func(l *daemon.LockBook) error {
				list, err := l.List(cmd.Context())
				if err != nil {
					return failed(err)
				}
				return a.print(list, func(w io.Writer) {
					rows := [][]string{{"KEY", "HOLDER", "GENERATION", "AGE", "LEFT", "CONTENDERS"}}
					for _, lock := range list {
						rows = append(rows, []string{
							lock.Key, holder(lock), strconv.FormatUint(lock.Generation, 10),
							age(lock), left(lock), dash(strings.Join(lock.Contenders, " ")),
						})
					}
					table(w, rows)
				})
			})
		},
	}
}

func newLocksShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show KEY", Short: "Show one lock", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLocks(cmd.Context(), func(l *daemon.LockBook) error {
				lock, err := l.Show(cmd.Context(), args[0])
				if err != nil {
					return failed(err)
				}
				return a.print(lock, func(w io.Writer) {
					table(w, [][]string{
						{"key", lock.Key},
						{"holder", holder(lock)},
						{"generation", strconv.FormatUint(lock.Generation, 10)},
						{"age", age(lock)},
						{"renewed", millis(lock.RenewedMS) + " ago"},
						{"time to live", millis(lock.TTLMS)},
						{"left", left(lock)},
						{"contenders", dash(strings.Join(lock.Contenders, " "))},
						{"reason", dash(lock.Reason)},
					})
				})
			})
		},
	}
}

func newLocksBreak(a *app) *cobra.Command {
	var generation uint64
	var reason string
	cmd := &cobra.Command{
		Use: "break KEY --generation N --reason R", Short: "Take a lock away from its holder", Args: cobra.ExactArgs(1),
		Long: `Take a lock away from its holder, if it still has the generation given.

The holder notices at its next renewal and stops its work then; until then its guarded writes are
refused only once another holder has written. Breaking the lock of a process that is alive is safe
for guarded work, and seldom useful.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return fmt.Errorf("--reason is empty: say why, it is recorded")
			}
			return a.withLocks(cmd.Context(), func(l *daemon.LockBook) error {
				if err := l.Break(cmd.Context(), args[0], generation, reason); err != nil {
					return failed(err)
				}
				return a.print(map[string]any{"key": args[0], "generation": generation, "broken": true}, func(w io.Writer) {
					fmt.Fprintf(w, "%s at generation %d is free\n", args[0], generation)
				})
			})
		},
	}
	cmd.Flags().Uint64Var(&generation, "generation", 0, "the generation that is to end, from locks ls")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	for _, flag := range []string{"generation", "reason"} {
		_ = cmd.MarkFlagRequired(flag) // fails only for a flag that does not exist
	}
	return cmd
}

// lockChange is a line of "locks watch".
type lockChange struct {
	Time       time.Time `json:"time"`
	Key        string    `json:"key"`
	Why        string    `json:"why"`
	Holder     string    `json:"holder"`
	Generation uint64    `json:"generation"`
}

func newLocksWatch(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "watch [KEY | PREFIX.]", Short: "Follow who gets and loses locks, until interrupted", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLocks(cmd.Context(), func(l *daemon.LockBook) error {
				return failed(a.watchLocks(cmd.Context(), l, strings.Join(args, "")))
			})
		},
	}
}

// watchLocks prints changes until ctx ends. A watch that breaks is begun anew, and tells anew who has
// what: a change meanwhile may show only by that.
func (a *app) watchLocks(ctx context.Context, l *daemon.LockBook, keyOrPrefix string) error {
	for {
		changes, err := l.Watch(ctx, keyOrPrefix)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for c := range changes {
			if err := a.printChange(c); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchAgain):
			fmt.Fprintln(a.stderr, "spinifex: the watch broke and begins anew")
		}
	}
}

func (a *app) printChange(c kvsync.Change) error {
	change := lockChange{Time: time.Now().UTC(), Key: c.Key, Why: string(c.Why), Holder: c.Token.Holder, Generation: c.Token.Generation}
	if a.output == "json" {
		return json.NewEncoder(a.stdout).Encode(change) // one line per change
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %-11s  %s  %s  %d\n", change.Time.Format("15:04:05.000"), change.Why, change.Key, dash(change.Holder), change.Generation)
	return err
}

// withLocks connects a command to the sync bucket.
func (a *app) withLocks(ctx context.Context, do func(*daemon.LockBook) error) error {
	return a.withCloud(ctx, func(_ *config.Config, conn *messaging.Conn) error { return do(daemon.NewLockBook(conn)) })
}

func holder(lock daemon.Lock) string {
	if lock.Undecodable {
		return "(unreadable)"
	}
	return lock.Holder
}

func age(lock daemon.Lock) string {
	if lock.AgeMS == nil {
		return "unanswered"
	}
	return millis(*lock.AgeMS)
}

func left(lock daemon.Lock) string {
	switch {
	case lock.TTLMS == 0 && !lock.Undecodable:
		return "no end"
	case !lock.Answered:
		return "unanswered"
	}
	return millis(lock.ValidForMS)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
