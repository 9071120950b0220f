package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

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
statement that signals.

The role must be a member of the session's role, or of pg_signal_backend and
pg_read_all_stats; only a superuser can signal a superuser's session. End a
prepared transaction with ROLLBACK PREPARED. Afterwards the command reports what
became of each lock, and logs the signal to standard error.

Exit codes: 0 done (terminate: the session is gone; cancel: a wait is over, or a
lock is free); 1 not done; 66 no such session; 77 the role may not do that; 69
no database; 64 wrong usage.`

// signalRun is one call of cancel or terminate, or of a key of the view.
type signalRun struct {
	signal string
	dsn    *dsn
	holder string            // of locks in rows; only of terminate
	id     monitor.SessionID // what was named
	ref    string            // PID@SINCE, if it was named so
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
	if err := s.parse(cmd, args); err != nil {
		return err
	}
	return s.dsn.withPool(cmd, nil, "pglock "+s.signal, func(ctx context.Context, db database, pool *pgxpool.Pool) error {
		target, preview, err := s.look(ctx, db, pool)
		switch {
		case err != nil:
			return db.failed(err)
		case s.dryRun:
			refused := target.Permitted()
			if refused != nil {
				refused = db.failed(refused)
			} else if !view.InVain(target, s.signal) {
				preview = append(preview, "", view.EndSession(s.signal, target.Ref, db.flags)+" --yes")
			}
			_, err := io.WriteString(os.Stdout, lines(preview))
			return errors.Join(err, refused)
		case !s.yes:
			var cannotAsk error
			if !term.Is(os.Stdin) || !term.Is(os.Stderr) {
				cannotAsk = misuse(cmd, "%s: there is no terminal to ask on; to %s this %s, run %s --yes",
					db.target, s.signal, view.Noun(target), view.EndSession(s.signal, target.Ref, db.flags))
			}
			if err := s.confirm(ctx, os.Stdin, db, target, preview, cannotAsk); err != nil {
				return err
			}
		}
		return s.send(ctx, db, pool, target)
	})
}

var (
	isHolder     = regexp.MustCompile(`^[0-9a-f]{16}$`)
	isSessionRef = regexp.MustCompile(`^([1-9][0-9]{0,8})(?:@\d{4}-\d\d-\d\dT[0-9:.]+Z)?$`)
)

// parse reads the arguments, which name one session or process, before the command connects.
func (s *signalRun) parse(cmd *cobra.Command, args []string) error {
	if s.yes && s.dryRun {
		return misuse(cmd, "--dry-run contradicts --yes")
	}
	if holder := cmd.Flags().Changed("holder"); holder == (len(args) > 0) {
		return misuse(cmd, "expected one PID%s", map[bool]string{true: ", or --holder"}[s.signal == "terminate"])
	} else if holder {
		if s.id.Holder = s.holder; !isHolder.MatchString(s.holder) {
			return misuse(cmd, "--holder: a process has 16 hexadecimal digits, as in pglock.row_locks")
		}
		return nil
	}
	parts := isSessionRef.FindStringSubmatch(args[0])
	if parts == nil {
		return misuse(cmd, "%q: want a process ID such as 4711, or PID@SINCE such as 4711@2026-11-20T20:47:59.123456Z", args[0])
	}
	pid, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return misuse(cmd, "%q is not a process ID", args[0])
	}
	if s.id.PID = int32(pid); parts[1] != args[0] {
		s.ref = args[0]
	} else if s.yes {
		return misuse(cmd, "--yes needs PID@SINCE, since a process ID alone can belong to another session by now (without --yes this "+
			"command shows it)")
	}
	return nil
}

// look finds the session or process on the server, and describes what ends with it.
func (s *signalRun) look(ctx context.Context, db database, pool *pgxpool.Pool) (t monitor.Target, preview []string, err error) {
	snapshot, err := inTime(ctx, func(ctx context.Context) (*monitor.Snapshot, error) {
		return monitor.Take(ctx, pool, monitor.WithTrustedOwner(db.trusted...), monitor.WithSession(s.id))
	})
	if err != nil {
		return t, nil, err
	}
	t, err = snapshot.Target(s.id)
	switch {
	case err != nil && s.id.Holder != "" && view.RowsMissing(snapshot) != "":
		err = fmt.Errorf("%w: %s", monitor.ErrNotPermitted, view.RowsMissing(snapshot))
	case err == nil && s.ref != "" && t.Ref != s.ref:
		err = fmt.Errorf("%w as %s: process %d is session %s", monitor.ErrNoSession, s.ref, t.PID, t.Ref)
	}
	if err != nil {
		return t, nil, err
	}
	return t, view.Preview(snapshot, t, s.signal, width()), nil
}

// confirm shows what would end, and asks, unless the role may not send the signal or it cannot ask.
func (s *signalRun) confirm(ctx context.Context, input io.Reader, db database, t monitor.Target, preview []string, cannotAsk error) error {
	if err := t.Permitted(); err != nil {
		return db.failed(err)
	}
	if _, err := io.WriteString(os.Stderr, lines(preview)); err != nil {
		return fmt.Errorf("show the session: %w", err)
	}
	if cannotAsk != nil {
		return cannotAsk
	}
	return askForYes(ctx, input, fmt.Sprintf("%s: %s %s %s?", db.target, s.signal, view.Noun(t), t.Ref), "cancelled: no signal was sent to "+t.Ref)
}

// send sends the signal, logs that it was sent or could not be sent, and prints what happened to each lock.
func (s *signalRun) send(ctx context.Context, db database, pool *pgxpool.Pool, t monitor.Target) error {
	end := monitor.Terminate
	if s.signal == "cancel" {
		end = monitor.Cancel
	}
	outcome, err := end(ctx, pool, t, monitor.WithTrustedOwner(db.trusted...))
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("server", db.target)
	switch {
	case err == nil:
		logger.LogAttrs(ctx, slog.LevelInfo, "session signalled", slog.String("signal", s.signal), slog.Any("", t), slog.String("outcome", outcome.String()))
	case outcome.Sent:
		logger.LogAttrs(ctx, slog.LevelError, "session signalled, effect unknown", slog.String("signal", s.signal), slog.Any("", t), slog.String("error", oneLine(err.Error())))
	default:
		logger.LogAttrs(ctx, slog.LevelError, "session not signalled", slog.String("signal", s.signal), slog.Any("", t), slog.String("error", oneLine(err.Error())))
	}
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
