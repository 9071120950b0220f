package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

func newTerminate(server *dsn) *cobra.Command {
	s := signalRun{signal: "terminate", dsn: server}
	cmd := newSignal(&s, &cobra.Command{
		Use:   "terminate [PID|PID@SINCE]",
		Short: "End a session, and with it all its locks",
		Long: `All its locks are freed, and its transaction is rolled back. The callers of a
Locker in its process are told of the loss at once. A process of a parallel
query means the session that runs the query. The server's own processes, and
those that send to its standbys, are refused.

` + signalHelp + `

--holder ends a process that holds locks in rows, in the connected database: its
locks are free at once, and it is told at its next renewal; until then only
GuardTx and fencing tokens keep in order what it writes. The role needs
EXECUTE on pglock.lease_terminate(text), and SELECT on pglock.row_locks and
pglock.fence.`,
		Example: `  pglock terminate 4711
  pglock terminate 4711@2026-11-20T20:47:59.123456Z --yes
  pglock terminate --holder fddbe8c4d687fab3`,
	})
	cmd.Flags().StringVar(&s.holder, "holder", "", "the process with this `ID` that holds locks in rows")
	cmd.Flags().Lookup("yes").Usage = "do not ask (needs PID@SINCE or --holder)"
	return cmd
}

func newCancel(server *dsn) *cobra.Command {
	return newSignal(&signalRun{signal: "cancel", dsn: server}, &cobra.Command{
		Use:   "cancel [PID|PID@SINCE]",
		Short: "Cancel a session's statement, such as its wait for a lock",
		Long: `This ends its wait for a lock, and fails its transaction, which frees the
transaction's locks. The session keeps its session locks. To end an idle
session, use "pglock terminate".

` + signalHelp,
		Example: `  pglock cancel 4712
  pglock cancel 4712@2026-11-20T20:48:03.5Z --yes`,
	})
}

// signalHelp is the common part of both help texts.
const signalHelp = `It first shows what ends with the session, its keys and their waiters, and asks.
With --dry-run it prints that, and the command that does it. --yes does not ask;
then name the session as PID@SINCE, as this command shows it, since the process
ID alone may belong to another session by then: the server compares both in the
statement that signals. If your role may not see when a session began, use
PID#FINGERPRINT, a hash of the session's user, application and keys.

The role must be a member of the session's role or of pg_signal_backend; only a
superuser can signal a superuser's session. End a prepared transaction with
ROLLBACK PREPARED. Afterwards the command reports what became of each lock, and
logs the signal to standard error.

Exit codes: 0 done (terminate: the session is gone; cancel: a wait is over, or a
lock is free); 1 not done; 66 no such session; 77 the role may not do that; 69
no database; 64 wrong usage.`

// signalRun is one call of cancel or terminate.
type signalRun struct {
	signal string
	dsn    *dsn
	holder string            // of locks in rows; only of terminate
	id     monitor.SessionID // what was named
	yes    bool
	dryRun bool
}

func newSignal(s *signalRun, cmd *cobra.Command) *cobra.Command {
	cmd.Args = arguments(0, 1, "one PID")
	cmd.RunE = s.command
	flags := cmd.Flags()
	flags.BoolVar(&s.yes, "yes", false, "do not ask (needs PID@SINCE)")
	flags.BoolVar(&s.dryRun, "dry-run", false, "only show what would end, on standard output")
	return cmd
}

func (s *signalRun) command(cmd *cobra.Command, args []string) error {
	if err := s.check(cmd, args); err != nil {
		return err
	}
	choose, err := s.chooser(cmd, args)
	if err != nil {
		return err
	}
	db, err := s.dsn.resolve(cmd)
	if err != nil {
		return err
	}
	options := []monitor.Option{monitor.WithTrustedOwner(db.trusted...)}
	pool, err := db.pool(cmd.Context(), "pglock "+s.signal)
	if err != nil {
		return err
	}
	defer pool.Close()
	target, err := s.inspect(cmd, db, pool, choose, options)
	if err != nil {
		return db.failed(err)
	}
	if s.dryRun {
		if err := target.Permitted(); err != nil {
			return db.failed(err)
		}
		return nil
	}
	if !s.yes {
		if err := s.confirm(cmd, db, target); err != nil {
			return err
		}
	}
	_, err = job.While(cmd.Context(), job.Catch(), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.send(ctx, db, pool, target)
	})
	return err
}

func (s *signalRun) inspect(
	cmd *cobra.Command, db database, pool *pgxpool.Pool, choose chooser, options []monitor.Option,
) (monitor.Target, error) {
	options = append(options, monitor.WithSession(s.id))
	snapshot, err := monitor.Take(cmd.Context(), pool, options...)
	if err != nil {
		return monitor.Target{}, err
	}
	target, err := choose(snapshot)
	if err != nil {
		return monitor.Target{}, err
	}
	if s.yes {
		return target, nil
	}
	if !s.dryRun {
		if err := target.Permitted(); err != nil {
			return monitor.Target{}, err
		}
	}
	shown, out := view.Preview(snapshot, target, s.signal, width()), os.Stderr
	if s.dryRun {
		out = os.Stdout
		before, does := "", s.signal
		if does == "cancel" && target.CancelIsNoop() {
			before, does = "To end the session: ", "terminate"
		}
		shown = append(shown, "", before+view.EndSession(does, target.Ref, db.flags)+" --yes")
	}
	if _, err = io.WriteString(out, lines(shown)); err != nil {
		return monitor.Target{}, fmt.Errorf("show the session: %w", err)
	}
	return target, nil
}

func (s *signalRun) confirm(cmd *cobra.Command, db database, c monitor.Target) error {
	if !term.Is(os.Stdin) || !term.Is(os.Stderr) {
		return misuse(cmd, "%s: there is no terminal to ask on; to %s this %s, run %s --yes",
			db.target, s.signal, view.Noun(c), view.EndSession(s.signal, c.Ref, db.flags))
	}
	return askForYes(fmt.Sprintf("%s: %s %s %s?", db.target, s.signal, view.Noun(c), c.Ref),
		"cancelled: no signal was sent to "+c.Ref)
}

// send sends the signal, prints what happened to each lock, and logs the details.
func (s *signalRun) send(ctx context.Context, db database, pool *pgxpool.Pool, c monitor.Target) error {
	outcome, err := send(ctx, db, pool, os.Stderr, s.signal, c)
	if err != nil {
		return db.failed(err)
	}
	if _, err := io.WriteString(os.Stdout, lines(view.Outcome(outcome, width()))); err != nil {
		return err
	}
	if !outcome.Effective() {
		return &exit{code: codeOther}
	}
	return nil
}
