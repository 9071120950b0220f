package monitor

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"
)

// Errors that [Inspect] and [Send] wrap.
var (
	// ErrNoSession means that there is no such session: it has ended, its process ID now belongs to another session, or
	// the snapshot does not have it. Nothing was signalled.
	ErrNoSession = errors.New("no such session")
	// ErrNotPermitted means that the server refused the signal. The error says which right is missing.
	ErrNotPermitted = errors.New("not permitted")
	// ErrOwnSession means that the target is the connection's own session, which it cannot signal.
	ErrOwnSession = errors.New("that is the session of this connection")
)

// Signal is a way to end a session, or its statement.
type Signal string

const (
	// SignalCancel ends the statement that the session runs, as pg_cancel_backend does. The session continues.
	SignalCancel Signal = "cancel"
	// SignalTerminate ends the session, as pg_terminate_backend does: all its locks are freed.
	SignalTerminate Signal = "terminate"
)

// SignalTarget is a session and everything that ends with it, to be shown before a signal is sent. It is plain data, as a
// [Snapshot] is, and shares the snapshot's memory.
type SignalTarget struct {
	// Session is the session, as the snapshot saw it.
	Session
	// Ref identifies the session. [Send] signals no other.
	Ref SessionRef
	// Holds are the locks that it holds, with all their waiters.
	Holds []Lock
	// WaitsFor are the locks that it waits for: one at most, unless the lock table changed while it was read.
	WaitsFor []Lock
	// WaitsForOther are the other locks that it waits for. There can be several if it has parallel workers.
	WaitsForOther []OtherWait
	// OtherWaiters are the sessions that it blocks directly with locks that are not advisory.
	OtherWaiters []OtherWait
	// Behind is how many sessions it blocks, directly or through others, each counted once ([Snapshot.Behind]).
	Behind int
	// Siblings are the other sessions of the same pglock process, by process ID. They are not signalled.
	Siblings []Session
	// Server is the server of the snapshot.
	Server Server

	role string // the monitor's role
}

// Inspect looks up in s what a session holds, waits for and blocks. It does not ask the server. A parallel worker is
// taken for its leader. The error matches [ErrNoSession] when s has no session with this process ID; s has those of
// the wait graph, and those that were asked for ([WithSession]). A prepared transaction has no process:
// [Session.RollbackSQL] is the statement that ends it. For processes that are not sessions, such as the checkpointer
// and the senders of replication, the error matches [ErrNotPermitted].
func Inspect(s *Snapshot, pid int32) (SignalTarget, error) {
	if pid <= 0 {
		return SignalTarget{}, fmt.Errorf("monitor: cannot signal process %d: %w (a prepared transaction has no process; "+
			"COMMIT PREPARED or ROLLBACK PREPARED ends it)", pid, ErrNoSession)
	}
	c := SignalTarget{Holds: []Lock{}, WaitsFor: []Lock{}, WaitsForOther: []OtherWait{}, OtherWaiters: []OtherWait{},
		Siblings: []Session{}, Server: s.Server, role: s.Role}
	others := map[int32]Session{}
	for _, session := range s.OtherSessions {
		others[session.PID] = session
	}
	if session := others[pid]; session.LeaderPID != 0 {
		return Inspect(s, session.LeaderPID)
	} else if session.PID != 0 {
		c.Session = session
	}
	for _, lock := range s.Locks {
		holds, waits := false, false
		for _, holder := range lock.Holders {
			if holder.PID == pid {
				c.Session, holds = holder.Session, true
			}
			others[holder.PID] = holder.Session
		}
		for _, waiter := range lock.Waiters {
			if waiter.PID == pid {
				c.Session, waits = waiter.Session, true
			}
			others[waiter.PID] = waiter.Session
		}
		if holds {
			c.Holds = append(c.Holds, lock)
		}
		if waits {
			c.WaitsFor = append(c.WaitsFor, lock)
		}
	}
	if c.PID == 0 {
		return SignalTarget{}, fmt.Errorf("monitor: cannot signal process %d: %w (at %s)", pid, ErrNoSession,
			s.TakenAt.Format("15:04:05 MST"))
	}
	if slices.Contains(c.Hidden, "user") {
		return SignalTarget{}, fmt.Errorf("monitor: cannot signal process %d: %w: it began or ended as the snapshot was "+
			"taken, so it cannot be told apart from another session (take a new snapshot)", pid, ErrNoSession)
	}
	if why := c.auxiliary(); why != "" {
		return SignalTarget{}, fmt.Errorf("monitor: cannot signal process %d: %w: %s", pid, ErrNotPermitted, why)
	}
	c.addOtherWaits(s)
	c.Behind = s.Behind()[c.ID()]
	c.Siblings = siblings(c.Session, others)
	c.Ref = bind(c)
	return c, nil
}

// addOtherWaits adds the other locks that the session waits for, and the sessions that wait for one of its own.
func (c *SignalTarget) addOtherWaits(s *Snapshot) {
	for _, wait := range s.OtherWaits {
		if wait.ID() == c.ID() {
			c.WaitsForOther = append(c.WaitsForOther, wait)
		}
		if slices.ContainsFunc(wait.BlockedBy, func(b Blocker) bool { return b.ID() == c.ID() }) {
			c.OtherWaiters = append(c.OtherWaiters, wait)
		}
	}
}

// auxiliaries are the processes, as pg_stat_activity calls them, that the server or its standbys need, and that must
// not be terminated to free a lock.
var auxiliaries = []string{"archiver", "autovacuum launcher", "background writer", "checkpointer", "io worker", "logger",
	"logical replication launcher", "slotsync worker", "startup", "walreceiver", "walsender",
	"walsummarizer", "walwriter"}

// auxiliary returns why a process must not be signalled, or "" if it may be.
func (c SignalTarget) auxiliary() string {
	if !slices.Contains(auxiliaries, c.BackendType) {
		return ""
	}
	return notASession(c.BackendType)
}

func notASession(kind string) string {
	return fmt.Sprintf("it is not a client's session but the server's %s", kind)
}

// siblings returns the other sessions of a session's process.
func siblings(of Session, all map[int32]Session) []Session {
	found := []Session{}
	for _, session := range all {
		if session.SameProcess(of) && session.PID != of.PID {
			found = append(found, session)
		}
	}
	slices.SortFunc(found, func(a, b Session) int { return cmp.Compare(a.PID, b.PID) })
	return found
}

// Waiting counts the waiters for the locks that c holds.
func (c SignalTarget) Waiting() (n int) {
	for _, lock := range c.Holds {
		n += len(lock.Waiters)
	}
	return n
}

// CancelIsNoop reports whether cancelling is known to change nothing: the session runs no statement, and only
// statements can be cancelled. It is false if the server hides the session's state.
func (c SignalTarget) CancelIsNoop() bool { return strings.HasPrefix(c.State, "idle") }

// Warnings returns what the user should know before the signal is sent, one sentence each. They can contain names from
// the server.
func (c SignalTarget) Warnings(signal Signal) []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if c.Process != "" && signal == SignalTerminate {
		say("it is one of the sessions of pglock process %s, which carry the locks of many callers: "+
			"%s at once, and that process is notified", c.Process, plural(len(c.Holds), "lock ends", "locks end"))
	}
	if signal == SignalCancel {
		all = append(all, c.cancelWarning())
	}
	if signal == SignalTerminate && c.TransactionSince != nil {
		say("its transaction is rolled back")
	}
	for _, lock := range c.Holds {
		if others := otherHolders(lock, c.PID); others > 0 && len(lock.Waiters) > 0 {
			say("ending it does not free %s: %s it", lock.Label(), plural(others, "other shares", "others share"))
		}
	}
	if c.Ref.Since.IsZero() {
		say("role %[1]s may not see when the session began, so it is recognised by its process ID, user, application "+
			"and keys, which another session can have too (GRANT pg_read_all_stats TO %[1]s)", quote(c.role))
	}
	return all
}

// otherHolders counts the holders of a lock other than pid.
func otherHolders(lock Lock, pid int32) int {
	others := map[SessionID]bool{}
	for _, holder := range lock.Holders {
		if holder.PID != pid {
			others[holder.ID()] = true
		}
	}
	return len(others)
}

func (c SignalTarget) cancelWarning() string {
	switch {
	case c.CancelIsNoop():
		return fmt.Sprintf("it is %s: there is no statement to cancel, and cancelling frees no lock; terminating does",
			c.State)
	case len(c.WaitsFor) > 0:
		return fmt.Sprintf("cancelling ends its wait for %s; the locks of its session stay held (%d here, "+
			"less those of its transaction)", c.WaitsFor[0].Label(), len(c.Holds))
	case len(c.WaitsForOther) > 0:
		return fmt.Sprintf("cancelling ends its wait for %s, and what its transaction has done so far is rolled back",
			c.WaitsForOther[0].Lock)
	}
	return "cancelling ends its statement: locks of its transaction are freed then, and locks of its session stay held; " +
		"PostgreSQL does not tell which are which"
}

// LogValue describes the session, its server and what ends with it, for a log. It has at most ten keys, and their
// number.
func (c SignalTarget) LogValue() slog.Value {
	const most = 10
	keys := []string{}
	for _, lock := range c.Holds[:min(most, len(c.Holds))] {
		keys = append(keys, lock.Key)
	}
	return slog.GroupValue(
		slog.String("host", c.Server.Host),
		slog.Int("port", int(c.Server.Port)),
		slog.Bool("in_recovery", c.Server.InRecovery),
		slog.String("session", c.Ref.String()),
		slog.String("user", c.User),
		slog.String("database", c.Database),
		slog.String("application", c.Application),
		slog.String("client", c.Client),
		slog.Int("locks", len(c.Holds)),
		slog.Any("keys", keys),
		slog.Int("waiters", c.Waiting()),
		slog.Int("other_waiters", len(c.OtherWaiters)),
		slog.Int("behind", c.Behind),
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
