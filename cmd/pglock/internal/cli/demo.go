package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/demo"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
)

func newDemo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See locks, holders and waiters on a temporary PostgreSQL server",
		Long: `Start a temporary PostgreSQL server, let several processes contend for locks on
it, and show what the monitor sees. It takes some seconds, and leaves nothing
behind, even after Ctrl-C.

It looks for the server's programs in PGLOCK_POSTGRES_BIN, on the PATH, and in
the usual places; nothing is installed. If there are none it downloads them,
from the Maven repository in PGLOCK_POSTGRES_MIRROR or else from the public one,
over https and with a checksum, or not at all.

Root may run it too: the server then runs as postgres or nobody, since it
refuses to run as root.`,
		Example: `  pglock demo
  PGLOCK_POSTGRES_BIN=/usr/lib/postgresql/17/bin pglock demo`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			d := demo.Demo{Out: cmd.OutOrStdout(), Worker: []string{self, "demo", "worker"}, Width: width()}
			_, err = job.While(cmd.Context(), job.Catch(), func(ctx context.Context) (struct{}, error) {
				return struct{}{}, d.Run(ctx)
			})
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.AddCommand(&cobra.Command{
		Use:    "worker PART",
		Short:  "Run as a worker of the demonstration",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return demo.Worker(cmd.Context(), args)
		},
	})
	return cmd
}
