package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// inspect inspects a session that must be in the snapshot.
func inspect(t testing.TB, db pglock.DB, pid int32) monitor.Target {
	t.Helper()
	c, err := take(t, db).Target(monitor.SessionID{PID: pid})
	must.Succeed(t, err)
	return c
}

// signalAs returns the function that sends a signal.
func signalAs(signal string) func(context.Context, pglock.DB, monitor.Target, ...monitor.Option) (monitor.Outcome, error) {
	if signal == "cancel" {
		return monitor.Cancel
	}
	return monitor.Terminate
}

// waitFor starts a statement that waits for a lock.
func waitFor(t testing.TB, db *testenv.DB, statement string) (conn *pgx.Conn, result <-chan error) {
	t.Helper()
	conn = db.Connect(t)
	returned := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), statement)
		returned <- err
	}()
	db.WaitForWaiters(t, 1)
	return conn, returned
}

func wantState(t testing.TB, err error, code string) {
	t.Helper()
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) || refusal.Code != code {
		t.Errorf("got %v, want an error of the server with code %s", err, code)
	}
}

// holders returns the processes that hold a key, according to the server.
func holders(t testing.TB, db *testenv.DB, key int64) (pids []int32) {
	t.Helper()
	for _, lock := range db.AdvisoryLocks(t) {
		if lock.Granted && lock.Key == key {
			pids = append(pids, lock.PID)
		}
	}
	return pids
}

func TestSignalTerminatingASessionFreesAllItsLocks(t *testing.T) {
	for _, mode := range queryModes {
		t.Run(mode.String(), func(t *testing.T) {
			db := testenv.Database(t)
			pool := poolIn(t, db, mode)
			holder := session(t, db, "SELECT pg_advisory_lock(1), pg_advisory_lock_shared(7, -42)")
			waiter, granted := waitFor(t, db, "SELECT pg_advisory_lock(1)")

			c := inspect(t, pool, pidOf(holder))
			if len(c.Holds) != 2 || c.Ref != c.SessionRef() || !strings.HasPrefix(c.Ref, fmt.Sprint(pidOf(holder), "@")) {
				t.Fatalf("the target is %+v", c)
			}
			o, err := monitor.Terminate(t.Context(), pool, c)
			must.Succeed(t, err)
			must.Succeed(t, <-granted)
			if !o.Sent || !o.Ended || !o.Effective() || len(o.Locks) != 2 {
				t.Fatalf("the outcome is %+v", o)
			}
			first, second := o.Locks[0], o.Locks[1]
			if first.Kept || len(first.Holders) != 1 || first.Holders[0].PID != pidOf(waiter) {
				t.Errorf("the lock that was waited for became %+v", first)
			}
			if second.Kept || len(second.Holders) != 0 {
				t.Errorf("the other lock became %+v", second)
			}
			want := fmt.Sprintf("session %d has ended: 1 lock is free, 1 lock passed to the next waiter", c.PID)
			if o.String() != want {
				t.Errorf("it says %q, want %q", o, want)
			}
			if got := holders(t, db, 1); !slices.Equal(got, []int32{pidOf(waiter)}) {
				t.Errorf("the server says that %v hold the lock", got)
			}
			_, err = monitor.Terminate(t.Context(), pool, c)
			if !errors.Is(err, monitor.ErrNoSession) {
				t.Errorf("terminated again: %v", err)
			}
		})
	}
}

func TestSignalCancellingEndsAWait(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, "SELECT pg_advisory_lock_shared(1)")
	waiter, result := waitFor(t, db, "SELECT pg_advisory_lock(2), pg_advisory_lock(1)")
	next := startWaiter(t, db, "SELECT pg_advisory_lock_shared(1)")
	c := inspect(t, db.Pool(t), pidOf(waiter))
	if len(c.Waits) != 1 || len(c.Holds) != 1 {
		t.Fatalf("the waiter is %+v", c)
	}
	if text := strings.Join(c.Warnings("cancel"), "\n"); !strings.Contains(text, "ends its wait for @1") {
		t.Errorf("before it says %q", text)
	}
	o, err := monitor.Cancel(t.Context(), db.Pool(t), c)
	must.Succeed(t, err)
	wantState(t, <-result, "57014")
	if o.Ended || !strings.Contains(o.String(), "does not wait any more") || !o.Effective() || !o.Locks[0].Kept ||
		!strings.HasSuffix(o.String(), "of 1 session that waited behind it 1 can go on") {
		t.Errorf("the outcome is %v: %+v", o, o)
	}
	if got := holders(t, db, 1); !slices.Contains(got, pidOf(holder)) || !slices.Contains(got, next) {
		t.Errorf("the server says that %v hold the lock", got)
	}
}

func TestSignalCancellingAStatementFreesTheLocksOfItsTransaction(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, "SELECT pg_advisory_lock(1)", "BEGIN", "SELECT pg_advisory_xact_lock(2)")
	result := make(chan error, 1)
	go func() {
		_, err := holder.Exec(context.Background(), "SELECT pg_sleep(3600)")
		result <- err
	}()
	var c monitor.Target
	pool := db.Pool(t)
	testenv.WaitUntil(t, "the statement runs", func() bool {
		c = inspect(t, pool, pidOf(holder))
		return c.State == "active"
	})
	o, err := monitor.Cancel(t.Context(), pool, c)
	must.Succeed(t, err)
	wantState(t, <-result, "57014")
	if !o.Effective() || !o.Locks[0].Kept || o.Locks[1].Kept {
		t.Errorf("the outcome is %+v", o)
	}
}

// Process IDs are reused, so a process ID alone must not be enough.
func TestSignalOnlyTheSessionThatWasMeantIsSignalled(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, "SELECT pg_advisory_lock(1)")
	c := inspect(t, db.Pool(t), pidOf(holder))
	since := c.Since.Add(-time.Microsecond)
	c.Since = &since
	c.Ref = c.SessionRef()
	for _, signal := range signals {
		_, err := signalAs(signal)(t.Context(), db.Pool(t), c)
		if !errors.Is(err, monitor.ErrNoSession) || !strings.Contains(err.Error(), "another session by now") {
			t.Errorf("%s: %v", signal, err)
		}
	}
	must.Succeed(t, holder.Ping(t.Context()))
}

var signals = []string{"cancel", "terminate"}

// signaller returns a connection of a role that may signal but cannot see when sessions began.
func signaller(t testing.TB, db *testenv.DB) *pgx.Conn {
	t.Helper()
	conn := connectAs(t, db.Role(t, "signaller"))
	execute(t, db.Pool(t), "GRANT pg_signal_backend TO "+quoted(conn.Config().User))
	return conn
}

// unprivilegedSession returns a session of a role that is not a superuser.
func unprivilegedSession(t testing.TB, db *testenv.DB, statements ...string) *pgx.Conn {
	t.Helper()
	conn := connectAs(t, db.Role(t, "poor"))
	execute(t, conn, statements...)
	return conn
}

func TestSignalNeedsToSeeWhenTheSessionBegan(t *testing.T) {
	db := testenv.Database(t)
	from, holder := signaller(t, db), unprivilegedSession(t, db, "SELECT pg_advisory_lock(1)")
	c := inspect(t, from, pidOf(holder))
	_, err := monitor.Terminate(t.Context(), from, c)
	for _, err := range []error{err, c.Permitted()} {
		if !errors.Is(err, monitor.ErrNotPermitted) || !strings.Contains(err.Error(), "GRANT pg_read_all_stats TO") {
			t.Errorf("got %v", err)
		}
	}
	must.Succeed(t, holder.Ping(t.Context()))
}

func TestSignalARefusedSignalSaysWhichRightIsMissing(t *testing.T) {
	db := testenv.Database(t)
	poor, other := unprivilegedSession(t, db, "SELECT pg_advisory_lock(1)"), unprivilegedSession(t, db)
	superuser := session(t, db, "SELECT pg_advisory_lock(2)")
	for name, test := range map[string]struct {
		from, to *pgx.Conn
		want     string
	}{
		"no right":    {other, poor, "GRANT pg_signal_backend TO " + quoted(other.Config().User)},
		"a superuser": {signaller(t, db), superuser, "which only a superuser can signal"},
	} {
		for _, signal := range signals {
			target := inspect(t, test.from, pidOf(test.to))
			before := target.Permitted()
			o, err := signalAs(signal)(t.Context(), test.from, target)
			for _, err := range []error{before, err} {
				if !errors.Is(err, monitor.ErrNotPermitted) || !strings.Contains(err.Error(), test.want) || o.Sent {
					t.Errorf("%s, %s: %v", name, signal, err)
				}
			}
			must.Succeed(t, test.to.Ping(t.Context()))
		}
	}
}

func TestSignalAMemberOfTheRoleMaySignalWithoutAnyGrant(t *testing.T) {
	db := testenv.Database(t)
	role := db.Role(t, "poor")
	holder, from := connectAs(t, role), connectAs(t, role)
	execute(t, holder, "SELECT pg_advisory_lock(1)")
	target := inspect(t, from, pidOf(holder))
	must.Succeed(t, target.Permitted())
	o, err := monitor.Terminate(t.Context(), from, target)
	must.Succeed(t, err)
	if !o.Ended {
		t.Errorf("the outcome is %+v", o)
	}
}

func TestSignalASessionNeverEndsItself(t *testing.T) {
	db := testenv.Database(t)
	conn := session(t, db, "SELECT pg_advisory_lock(1)")
	for _, signal := range signals {
		_, err := signalAs(signal)(t.Context(), conn, inspect(t, conn, pidOf(conn)))
		if !errors.Is(err, monitor.ErrNotPermitted) {
			t.Errorf("%s: %v", signal, err)
		}
	}
}

func TestSignalSessionsOutsideTheSnapshotAreNotSignalled(t *testing.T) {
	db := testenv.Database(t)
	stranger := session(t, db)
	s := take(t, db.Pool(t))
	for _, pid := range []int32{pidOf(stranger), 0, -1} {
		if _, err := s.Target(monitor.SessionID{PID: pid}); !errors.Is(err, monitor.ErrNoSession) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	if _, err := monitor.Terminate(t.Context(), db.Pool(t), monitor.Target{}); !errors.Is(err, monitor.ErrNoSession) {
		t.Errorf("no session at all: %v", err)
	}
	if _, err := monitor.Cancel(t.Context(), nil, monitor.Target{}); err == nil {
		t.Error("no connection at all is no error")
	}
}

func TestSignalAPreparedTransactionIsEndedByASQLStatement(t *testing.T) {
	db := testenv.Database(t)
	for i, gid := range []string{"plain ", `it's a \ `, "it's\na \x1b[31m\u00a0日本 "} {
		gid += db.Name()
		conn := session(t, db, "BEGIN", fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", i))
		execute(t, conn, "PREPARE TRANSACTION '"+strings.ReplaceAll(gid, "'", "''")+"'")
		holder := find(t, take(t, conn), pglock.Int64Key(int64(i))).Holders[0]
		if holder.GID != gid {
			t.Fatalf("the identifier is %q", holder.GID)
		}
		if strings.ContainsFunc(holder.RollbackSQL(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q cannot be copied from a screen", holder.RollbackSQL())
		}
		execute(t, conn, "SET standard_conforming_strings = off", holder.RollbackSQL())
		if left := holders(t, db, int64(i)); len(left) != 0 {
			t.Errorf("%s left the lock with %v", holder.RollbackSQL(), left)
		}
	}
	if sql := (monitor.Session{PID: 1, GID: "x"}).RollbackSQL() + (monitor.Session{}).RollbackSQL(); sql != "" {
		t.Errorf("what is no prepared transaction is ended by %q", sql)
	}
}

func TestSignalSessionsOfOneProcessAreSiblings(t *testing.T) {
	hold := func(pid int32, process string) monitor.Lock {
		session := monitor.Session{PID: pid, Process: process, User: "app", Since: &time.Time{}}
		return monitor.Lock{Key: fmt.Sprint("@", pid), Number: int64(pid), Holders: []monitor.Holder{{Session: session}}}
	}
	s := &monitor.Snapshot{Locks: []monitor.Lock{
		hold(3, "1f3a9c42"), hold(2, "1f3a9c42"), hold(1, "1f3a9c42"), hold(4, ""), hold(5, "")}}
	c, err := s.Target(monitor.SessionID{PID: 2})
	must.Succeed(t, err)
	if len(c.Siblings) != 2 || c.Siblings[0].PID != 1 || c.Siblings[1].PID != 3 {
		t.Errorf("the siblings are %+v", c.Siblings)
	}
	if text := strings.Join(c.Warnings("terminate"), "\n"); !strings.Contains(text, "pglock process 1f3a9c42") {
		t.Errorf("it says %q", text)
	}
	if c, err := s.Target(monitor.SessionID{PID: 4}); err != nil || len(c.Siblings) != 0 {
		t.Errorf("a session of no process has siblings %+v (%v)", c.Siblings, err)
	}
}

func TestSignalTheLogSaysWhoAndWhat(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, "SELECT pg_advisory_lock(n) FROM generate_series(1, 25) n")
	var host string // in a container the server's own address is not the one that clients use
	var port int
	must.Succeed(t, db.Pool(t).QueryRow(t.Context(), "SELECT host(inet_server_addr()), inet_server_port()").Scan(&host, &port))
	o, err := monitor.Terminate(t.Context(), db.Pool(t), inspect(t, db.Pool(t), pidOf(holder)))
	must.Succeed(t, err)
	var text strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("terminate", "session", o.Target)
	for _, want := range []string{fmt.Sprintf("session.session=%v", o.Target.Ref), "session.locks=25",
		"session.host=" + host, fmt.Sprintf("session.port=%d", port), "@10]"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is not in the log: %s", want, &text)
		}
	}
	if strings.Contains(text.String(), "@11") {
		t.Errorf("the log has more than ten keys: %s", &text)
	}
}

// If the effect of a signal cannot be seen, the error says that it was sent.
func TestSignalWhoseEffectCannotBeSeenIsAnError(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, "SELECT pg_advisory_lock(1)")
	pool := db.Pool(t)
	c := inspect(t, pool, pidOf(holder))
	ctx, cancel := context.WithCancel(t.Context())
	o, err := monitor.Terminate(ctx, &afterFirstBatch{DB: pool, after: cancel}, c)
	if !errors.Is(err, context.Canceled) || !o.Sent || !strings.Contains(err.Error(), "was sent") {
		t.Errorf("the outcome is %+v (%v)", o, err)
	}
	testenv.WaitUntil(t, "the lock is free", func() bool { return len(holders(t, db, 1)) == 0 })
}

func TestSignalWithoutAnAnswerMayHaveBeenSent(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, "SELECT pg_advisory_lock(1)")
	pool := db.Pool(t)
	c := inspect(t, pool, pidOf(holder))
	_, err := monitor.Terminate(t.Context(), lostAnswers{pool}, c)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "may still have been sent") {
		t.Errorf("got %v", err)
	}
	testenv.WaitUntil(t, "the lock is free", func() bool { return len(holders(t, db, 1)) == 0 })
}

// lostAnswers loses the answers to batches.
type lostAnswers struct{ pglock.DB }

func (b lostAnswers) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return unanswered{b.DB.SendBatch(ctx, batch)}
}

type unanswered struct{ pgx.BatchResults }

func (u unanswered) Close() error { return errors.Join(u.BatchResults.Close(), io.ErrUnexpectedEOF) }

// afterFirstBatch calls after when the first batch has been executed.
type afterFirstBatch struct {
	pglock.DB
	after func()
}

func (o *afterFirstBatch) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return &closing{o.DB.SendBatch(ctx, batch), o.after}
}

type closing struct {
	pgx.BatchResults
	after func()
}

func (c *closing) Close() error {
	defer c.after()
	return c.BatchResults.Close()
}
