package monitor

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Errors that [Snapshot.Target], [Terminate] and [Cancel] wrap.
var (
	// ErrNoSession means that there is no such session or process: it has ended, its process ID now belongs to another
	// session, or the snapshot does not have it. Nothing was signalled.
	ErrNoSession = errors.New("no such session")
	// ErrNotPermitted means that the server refused the signal, and which right is missing, or that the target is the
	// connection's own session, which it cannot signal.
	ErrNotPermitted = errors.New("not permitted")
)

// The ways to end a session, or its statement.
const (
	signalCancel    = "cancel"
	signalTerminate = "terminate"
)

// Target is a session, or a process that uses locks in rows, and everything that ends with it, to be shown before it is
// ended. It is plain data, as a [Snapshot] is, and shares the snapshot's memory.
type Target struct {
	// Session is the session, as the snapshot saw it.
	Session
	// Ref identifies it, so that a signal cannot reach a later session with the same process ID: the process ID and the
	// time when the session began, as in "4711@2026-11-20T20:47:59.123456Z". Without that time, which the role may not
	// see, it cannot be signalled. Of a process it is [Lease.Holder], which is never used again.
	Ref string
	// Holds are the locks that it holds, with all their waiters.
	Holds []Lock
	// Waits are its waits: one at most, unless it has parallel workers or the lock table changed while it was read.
	Waits []Wait
	// OtherWaiters are the waits that it blocks directly, besides those for Holds: for other locks of it, or behind it in a queue.
	OtherWaiters []Wait
	// Siblings are the other sessions of the same pglock process, by process ID. They are not signalled.
	Siblings []Session
	// Server is the server of the snapshot.
	Server Server

	snapshot *Snapshot
}

// Target looks up what a session or process holds, waits for and blocks. It does not ask the server. A parallel worker
// is taken for its leader. The error matches [ErrNoSession] when s does not have it; s has those of the wait graph, and
// the one that was asked for ([WithSession]). A prepared transaction has no process: [Session.RollbackSQL] is the
// statement that ends it. For processes that are not sessions, such as the checkpointer and the senders of replication,
// the error matches [ErrNotPermitted].
func (s *Snapshot) Target(id SessionID) (Target, error) {
	t, err := s.target(id)
	if err != nil {
		return Target{}, fmt.Errorf("monitor: cannot signal %s: %w", id, err)
	}
	return t, nil
}

// String names the session in an error.
func (id SessionID) String() string {
	if id.Holder != "" {
		return "process " + id.Holder
	}
	return fmt.Sprintf("process %d", id.PID)
}

func (s *Snapshot) target(id SessionID) (Target, error) {
	if id.Holder == "" && id.PID <= 0 {
		return Target{}, fmt.Errorf("%w (a prepared transaction has no process; COMMIT PREPARED or ROLLBACK PREPARED ends it)", ErrNoSession)
	}
	t := Target{Holds: []Lock{}, Waits: []Wait{}, OtherWaiters: []Wait{}, Siblings: []Session{}, Server: s.Server, snapshot: s}
	found := false
	for session := range s.Sessions() {
		if session.ID() == id {
			t.Session, found = session, true
		}
	}
	switch {
	case !found:
		return Target{}, fmt.Errorf("%w (at %s)", ErrNoSession, s.TakenAt.Format("15:04:05 MST"))
	case t.LeaderPID != 0:
		return s.target(SessionID{PID: t.LeaderPID})
	case t.Lease == nil && slices.Contains(t.Hidden, "user"):
		return Target{}, fmt.Errorf("%w: it began or ended as the snapshot was taken, so it cannot be told apart from another session "+
			"(take a new snapshot)", ErrNoSession)
	case slices.Contains(auxiliaries, t.BackendType):
		return Target{}, fmt.Errorf(notASession, ErrNotPermitted, t.BackendType)
	}
	for _, lock := range s.Locks {
		if slices.ContainsFunc(lock.Holders, func(h Holder) bool { return h.ID() == id }) {
			t.Holds = append(t.Holds, lock)
		}
	}
	for wait := range s.Waits() {
		if wait.ID() == id {
			t.Waits = append(t.Waits, wait)
		}
		if slices.ContainsFunc(wait.BlockedBy, func(b Blocker) bool { return b.ID() == id && (wait.Other != nil || b.Kind == blockSoft) }) {
			t.OtherWaiters = append(t.OtherWaiters, wait)
		}
	}
	for session := range s.Sessions() {
		if session.sameProcess(t.Session) && session.PID != t.PID {
			t.Siblings = append(t.Siblings, session)
		}
	}
	slices.SortFunc(t.Siblings, func(a, b Session) int { return cmp.Compare(a.PID, b.PID) })
	t.Ref = t.ref()
	return t, nil
}

// Effect returns what the signal frees. It is the zero Effect for a cancel if there is no wait to cancel: which locks a
// statement frees when it is cancelled is not known.
func (t Target) Effect(signal string) Effect {
	tree := t.snapshot.Tree()
	n := tree.Node(t.ID())
	if n == nil || signal == signalCancel && n.Wait == nil {
		return Effect{}
	}
	return newSimulation(t.snapshot, tree.graph).effect([]sent{{n.number, signal != signalCancel}})
}

// ref returns the [Target.Ref] of a session or process, and "" for a prepared transaction.
func (s *Session) ref() string {
	switch {
	case s.Lease != nil:
		return s.Lease.Holder
	case s.Prepared():
		return ""
	}
	return cmp.Or(s.SessionRef(), fmt.Sprint(s.PID))
}

// SessionRef identifies the session by its process ID and the time when it began, as [Target.Ref] does. It is empty if
// that time is unknown, and for a prepared transaction or process.
func (s Session) SessionRef() string {
	if s.PID == 0 || s.Since == nil {
		return ""
	}
	return fmt.Sprintf("%d@%s", s.PID, s.Since.UTC().Format(time.RFC3339Nano))
}

// auxiliaries are the processes, as pg_stat_activity calls them, that the server or its standbys need, and that must
// not be terminated to free a lock.
var auxiliaries = []string{"archiver", "autovacuum launcher", "background writer", "checkpointer", "io worker", "logger",
	"logical replication launcher", "slotsync worker", "startup", "walreceiver", "walsender",
	"walsummarizer", "walwriter"}

const notASession = "%w: it is not a client's session but the server's %s"

// CancelIsNoop reports whether cancelling changes nothing: the session runs no statement, and only statements can be
// cancelled.
func (t Target) CancelIsNoop() bool { return strings.HasPrefix(t.State, "idle") }

// Permitted returns nil, or an error that matches [ErrNotPermitted] and says which right is missing, if the role of the
// snapshot may not signal the session. It does not ask the server, which decides when the signal is sent.
func (t Target) Permitted() error {
	if err := t.permitted(); err != nil {
		return fmt.Errorf("monitor: cannot signal session %s: %w", t.Ref, err)
	}
	return nil
}

func (t Target) permitted() error {
	switch t.SignalledBy {
	case "":
		return nil
	case bySuperuser:
		return fmt.Errorf("%w: it is a session of a superuser, which only a superuser can signal", ErrNotPermitted)
	case byReader:
		return fmt.Errorf("%w: role %[2]s may not see when the session began, which tells it from a later one with its process ID "+
			"(GRANT pg_read_all_stats TO %[2]s)", ErrNotPermitted, quote(t.snapshot.Role))
	}
	return fmt.Errorf("%w: role %[2]s is neither a member of the session's role nor of pg_signal_backend (GRANT pg_signal_backend TO %[2]s)",
		ErrNotPermitted, quote(t.snapshot.Role))
}

// Warnings returns what the user should know before the signal is sent, a sentence each, with names from the server.
func (t Target) Warnings(signal string) []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if t.Lease != nil {
		say("the process itself goes on. It is told at its next renewal, a third of its lease later at most; until then it believes " +
			"that it holds its locks. GuardTx and fencing tokens keep in order what it writes")
		if missing := cmp.Or(t.snapshot.RowLocksMissing, t.snapshot.IdleRowsMissing); missing != "" {
			say("%s", missing)
		}
		return all
	}
	if t.Process != "" && signal == signalTerminate {
		say("it is one of the sessions of pglock process %s, which carry the locks of many callers: "+
			"%s at once, and that process is notified", t.Process, plural(len(t.Holds), "lock ends", "locks end"))
	}
	if why := t.untouchable(); why != "" {
		say("%s", why)
	}
	if signal == signalCancel {
		say("%s", t.cancelWarning())
	} else if t.TransactionSince != nil {
		say("its transaction is rolled back")
	}
	return all
}

func (t Target) cancelWarning() string {
	switch {
	case t.CancelIsNoop():
		return fmt.Sprintf("it is %s: there is no statement to cancel, and cancelling frees no lock; terminating does",
			t.State)
	case len(t.Waits) > 0:
		return fmt.Sprintf("cancelling ends its wait for %s, and rolls back what its transaction has done; locks of its session "+
			"stay held", t.Waits[0].Label())
	}
	return "cancelling ends its statement: locks of its transaction are freed then, and locks of its session stay held; " +
		"PostgreSQL does not tell which are which"
}

// LogValue describes the session, its server and what ends with it, for a log. It has at most ten keys, and their
// number.
func (t Target) LogValue() slog.Value {
	const most = 10
	keys := []string{}
	for _, lock := range t.Holds[:min(most, len(t.Holds))] {
		keys = append(keys, lock.Key)
	}
	return slog.GroupValue(
		slog.String("host", t.Server.Host),
		slog.Int("port", int(t.Server.Port)),
		slog.String("session", t.Ref),
		slog.String("user", t.User),
		slog.String("database", t.Database),
		slog.String("application", t.Application),
		slog.String("client", t.Client),
		slog.Int("locks", len(t.Holds)),
		slog.Any("keys", keys),
	)
}

// RollbackSQL returns the statement that ends a prepared transaction and frees its locks. It has to be run in the
// transaction's database, by its owner or a superuser. It is empty for a session, and when the identifier is not known.
func (s Session) RollbackSQL() string {
	if !s.Prepared() || s.GID == "" {
		return ""
	}
	return "ROLLBACK PREPARED " + literal(s.GID)
}

// literal returns text as an SQL string constant that means the same whatever standard_conforming_strings is, and that
// contains only printable characters.
func literal(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r == '\\' || !unicode.IsPrint(r) }) {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	var quoted strings.Builder
	for _, r := range text {
		switch {
		case r == '\'' || r == '\\':
			quoted.WriteString(string([]rune{r, r}))
		case unicode.IsPrint(r):
			quoted.WriteRune(r)
		default:
			fmt.Fprintf(&quoted, `\U%08X`, r)
		}
	}
	return "E'" + quoted.String() + "'"
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
