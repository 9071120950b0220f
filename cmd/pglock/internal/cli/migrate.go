package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

func newMigrate(server *dsn) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "migrate",
		Short: "Install, upgrade or remove schema pglock",
		Long: `Install, upgrade or remove schema pglock. Plain locks do not need it. With it
the monitor shows names, locks have fencing numbers, and SQL can take the same
locks: SELECT pg_advisory_xact_lock(pglock.key('invoice:42')).

With other migration tools, run what "pglock migrate print" writes.`,
		Example: `  pglock migrate up
  pglock migrate print > migrations/20260101_pglock.sql`,
	})
	cmd.AddCommand(newMigrateUp(server), newMigrateDown(server), newMigrateVersion(server), newMigratePrint())
	return cmd
}

func newMigrateUp(server *dsn) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Install schema pglock, or upgrade it",
		Long: `Install schema pglock, or upgrade it, in one transaction. Any number of
processes may do this at once: one does the work, the others wait for it.

The role needs the right to create a schema in the database. "pglock migrate
print" shows the rights that other roles need.

A schema pglock of an untrusted role is not changed, because its code would run
with your rights; the exit code is 65. Trusted are your role, superusers, and
the roles of --trust-owner.`,
		Example: "  pglock migrate up --dsn postgres://admin@db.example.com/shop",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withSchema(cmd, server, func(ctx context.Context, db database, pool *pgxpool.Pool) error {
				if err := migrations.Up(ctx, pool, db.migrating()); err != nil {
					return err
				}
				version, err := migrations.Version(ctx, pool, db.migrating())
				if err != nil {
					return err
				}
				say(cmd.ErrOrStderr(), "%s: schema pglock has version %d", db.target, version)
				schema, err := lockdb.New(pool).SchemaOwner(ctx)
				if err == nil && !schema.Superuser {
					say(cmd.ErrOrStderr(), "programs of other roles have to trust its owner: WithTrustedOwner(%q), --trust-owner %[1]s",
						schema.Owner)
				}
				return err
			})
		},
	}
	return cmd
}

func newMigrateDown(server *dsn) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove schema pglock",
		Long: `Remove schema pglock with everything in it: the names of locks, the fencing
sequence, which starts from 1 if the schema is installed again, the records of
schedule, once and ratelimit, so that work that was done can be done again, and
locks in rows (package rowlock). While a process whose lease is not over holds
locks in rows, the command fails and removes nothing, with --yes too: stop such
processes first. Other locks that are held stay held. If the schema contains
anything that pglock did not create, the command fails and removes nothing.

It asks first. Without a terminal to ask on, it needs --yes.`,
		Example: "  pglock migrate down --yes",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := server.resolve(cmd)
			if err == nil && !yes {
				err = confirm(cmd, db)
			}
			if err != nil {
				return err
			}
			return withSchema(cmd, server, func(ctx context.Context, db database, pool *pgxpool.Pool) error {
				if _, err := migrations.Version(ctx, pool, db.migrating()); errors.Is(err, pglock.ErrSchemaMissing) {
					say(cmd.ErrOrStderr(), "%s: schema pglock is not installed, so nothing was removed", db.target)
					return nil
				}
				if err := migrations.Down(ctx, pool, db.migrating()); err != nil {
					return err
				}
				say(cmd.ErrOrStderr(), "%s: schema pglock was removed", db.target)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirm asks on the terminal whether to remove the schema.
func confirm(cmd *cobra.Command, db database) error {
	const what = "this removes schema pglock with everything in it: the names of locks, fencing numbers (which start from 1 " +
		"again), the records of schedule, once and ratelimit, so that work that was done can be done again, and locks in rows"
	if !term.Is(os.Stdin) || !term.Is(os.Stderr) {
		return misuse(cmd, "%s: %s; use --yes, since there is no terminal to ask", db.target, what)
	}
	return askForYes(cmd.Context(), os.Stdin, fmt.Sprintf("%s: %s.", db.target, what), "nothing was removed from "+db.target)
}

// askForYes asks on the terminal. Unless the answer is yes, it returns an error with the text otherwise. What was typed before is
// no answer.
func askForYes(ctx context.Context, input io.Reader, question, otherwise string) error {
	if file, ok := input.(*os.File); ok {
		term.Flush(file)
	}
	if _, err := fmt.Fprintf(os.Stderr, "%s\nType yes to continue: ", view.Printable(question)); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if readLine(ctx, input) != "yes" {
		return &exit{codeOther, errors.New(otherwise)}
	}
	return nil
}

// readLine returns a line without the spaces around it, or what there is of it when the input or ctx ends.
func readLine(ctx context.Context, input io.Reader) string {
	read := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(input).ReadString('\n') // what was not read is no answer
		read <- strings.TrimSpace(line)
	}()
	select {
	case line := <-read:
		return line
	case <-ctx.Done(): // the program ends
		return ""
	}
}

func newMigrateVersion(server *dsn) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of schema pglock",
		Long: fmt.Sprintf(`Show the version of schema pglock in the database. This pglock installs version
%d. If the schema is not installed, the command fails.`, migrations.Latest()),
		Example: "  pglock migrate version",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withSchema(cmd, server, func(ctx context.Context, db database, pool *pgxpool.Pool) error {
				version, err := migrations.Version(ctx, pool, db.migrating())
				if err != nil {
					return err
				}
				say(cmd.ErrOrStderr(), "%s", db.target)
				_, err = fmt.Fprintln(cmd.OutOrStdout(), version)
				return err
			})
		},
	}
	return cmd
}

func newMigratePrint() *cobra.Command {
	var down bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Write the schema for another tool",
		Long: `Write the schema as one file for another tool, which must run it in one
transaction: psql --single-transaction, goose, dbmate, golang-migrate, Atlas
(run "atlas migrate hash" afterwards), tern and others. No database is needed.
Comments at the end list the rights that roles need to take locks and to watch
them. "pglock migrate up" needs no file. Where sqlc reads the file too, set
omit_unused_structs in sqlc.yaml.`,
		Example: `  pglock migrate print | psql --single-transaction -v ON_ERROR_STOP=1
  pglock migrate print > 20260101000000_pglock.sql`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if down {
				return printFile(cmd.OutOrStdout(), "000001_pglock.down.sql")
			}
			if err := printFile(cmd.OutOrStdout(), "000001_pglock.up.sql"); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s",
				comment("A role that takes locks, here app, needs:", migrations.LockerGrants("app")),
				comment("A role that watches, here watcher, needs:", migrations.WatcherGrants("watcher")))
			return err
		},
	}
	cmd.Flags().BoolVar(&down, "down", false, "write the way back instead")
	return cmd
}

func printFile(w io.Writer, name string) error {
	sql, err := migrations.FS.ReadFile(name)
	if err == nil {
		_, err = w.Write(sql)
	}
	return err
}

// comment turns optional SQL into comments.
func comment(heading, sql string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- %s\n", heading)
	for line := range strings.Lines(sql) {
		b.WriteString("--   " + line)
	}
	return b.String()
}

func (d database) migrating() migrations.Option { return migrations.WithTrustedOwner(d.trusted...) }

// withSchema connects and calls do.
func withSchema(cmd *cobra.Command, dsn *dsn, do func(context.Context, database, *pgxpool.Pool) error) error {
	return dsn.withPool(cmd, nil, "pglock migrate", func(ctx context.Context, db database, pool *pgxpool.Pool) error {
		if err := do(ctx, db, pool); err != nil {
			return db.failed(err)
		}
		return nil
	})
}
