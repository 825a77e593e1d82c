package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mulgadc/spinifex/foundation/config"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/runtime/daemon"
)

func newBucket(a *app) *cobra.Command {
	bucket := &cobra.Command{
		Use: "bucket", Short: "Look at the buckets that hold the cloud's state", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	bucket.AddCommand(newBucketAudit(a))
	return bucket
}

func newBucketAudit(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "audit", Short: "Check replicas and settings of every bucket; status 1 when one is not as it has to be", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withCloud(cmd.Context(), func(cfg *config.Config, conn *messaging.Conn) error {
				size, err := daemon.DeclaredSize(cfg)
				if err != nil {
					return err
				}
				reports, err := kvstore.Audit(cmd.Context(), conn.JetStream(), size)
				if err != nil {
					return failed(err)
				}
				if err := a.print(reports, func(w io.Writer) { auditTable(w, reports) }); err != nil {
					return err
				}
				return failed(auditFaults(reports))
			})
		},
	}
}

func auditTable(w io.Writer, reports []kvstore.BucketReport) {
	rows := [][]string{{"BUCKET", "REPLICAS", "ONLINE", "LEADER", "LAG", "KEYS", "BYTES", "FAULTS"}}
	for _, r := range reports {
		wanted := "?"
		if r.ReplicasWanted > 0 {
			wanted = strconv.Itoa(r.ReplicasWanted)
		}
		faults := strings.Join(r.Drift, "; ")
		if r.Error != "" {
			faults = r.Error
		}
		rows = append(rows, []string{
			r.Bucket, fmt.Sprintf("%d of %s", r.ReplicasActual, wanted), strconv.Itoa(r.ReplicasOnline), dash(r.Leader),
			strconv.FormatUint(r.Lag, 10), strconv.FormatUint(r.Keys, 10), strconv.FormatUint(r.Bytes, 10), dash(faults),
		})
	}
	table(w, rows)
}

// auditFaults names the buckets that are not as they have to be.
func auditFaults(reports []kvstore.BucketReport) error {
	var bad []string
	for _, r := range reports {
		if r.Error != "" || len(r.Drift) > 0 || r.ReplicasActual < r.ReplicasWanted || r.ReplicasOnline < r.ReplicasActual {
			bad = append(bad, r.Bucket)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("not as they have to be: %s", strings.Join(bad, ", "))
}
