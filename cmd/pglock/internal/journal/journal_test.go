package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestMain(m *testing.M) { testenv.MainAlone(m) }

// fixture is a database and a journal of its locks.
type fixture struct {
	t    testing.TB
	db   *testenv.DB
	pool *pgxpool.Pool
	j    *journal.Journal
}

// newFixture is for tests that do not run in parallel: a database that another test makes while a snapshot is taken has no name
// there, by which its events could be told.
func newFixture(t testing.TB) *fixture {
	db := testenv.Database(t)
	return &fixture{t, db, db.Pool(t), journal.New()}
}

// observe takes a snapshot and returns it with the events in the fixture's database.
func (s *fixture) observe() (*monitor.Snapshot, []journal.Event) {
	s.t.Helper()
	snapshot, err := monitor.Take(s.t.Context(), s.pool)
	must.Succeed(s.t, err)
	ended, err := journal.Ended(s.t.Context(), s.pool, s.j.Gone(snapshot))
	must.Succeed(s.t, err)
	events := s.j.See(snapshot, ended...)
	return snapshot, slices.DeleteFunc(events, func(e journal.Event) bool {
		return e.Database != "" && e.Database != s.db.Name() || len(e.Steps) > 0 && e.Steps[0].Database != s.db.Name()
	})
}

// wantEvents takes a snapshot, and fails the test unless the events since the one before are these, in the form of
// summary.
func (s *fixture) wantEvents(texts ...string) (*monitor.Snapshot, []journal.Event) {
	s.t.Helper()
	snapshot, events := s.observe()
	var got []string
	for _, e := range events {
		got = append(got, summary(e))
	}
	if !slices.Equal(got, texts) {
		s.t.Fatalf("events:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(texts, "\n  "))
	}
	return snapshot, events
}

func summary(e journal.Event) string {
	text := string(e.Kind)
	if e.Key != "" {
		text += " " + e.Key
	}
	if e.Session != nil {
		text += " " + e.Session.Application
	}
	for _, p := range append(e.From, e.BlockedBy...) {
		text += " < " + p.Application
	}
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// connect opens a session with an application_name.
func (s *fixture) connect(name string) *pgx.Conn {
	s.t.Helper()
	conn := s.db.Connect(s.t)
	s.exec(conn, "SET application_name = '"+name+"'")
	return conn
}

func (s *fixture) exec(conn *pgx.Conn, sql string) {
	s.t.Helper()
	if _, err := conn.Exec(context.Background(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// startWait makes a session wait for a lock. It returns a function that waits until the statement has ended; only then
// may the session be used again.
func (s *fixture) startWait(conn *pgx.Conn, waiters int, sql string) (ended func()) {
	s.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), sql)
		done <- err
	}()
	s.db.WaitForWaiters(s.t, waiters)
	return func() {
		s.t.Helper()
		must.Succeed(s.t, <-done)
	}
}

// startTableWait is like startWait, but the session waits for a table.
func (s *fixture) startTableWait(conn *pgx.Conn, table string) (ended func()) {
	s.t.Helper()
	pid, done := conn.PgConn().PID(), make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT FROM "+table)
		done <- err
	}()
	watching := s.db.Connect(s.t)
	testenv.WaitUntil(s.t, "the session waits for the table", func() (waits bool) {
		must.Succeed(s.t, watching.QueryRow(context.Background(), "SELECT count(*) > 0 FROM pg_locks "+
			"WHERE pid = $1 AND locktype = 'relation' AND NOT granted", pid).Scan(&waits))
		return waits
	})
	return func() {
		s.t.Helper()
		must.Succeed(s.t, <-done)
	}
}

func TestJournalFollowsALock(t *testing.T) {
	s := newFixture(t)
	a, b, c := s.connect("a"), s.connect("b"), s.connect("c")
	s.exec(a, "SELECT pg_advisory_lock(7)")
	s.wantEvents()
	gotB := s.startWait(b, 1, "SELECT pg_advisory_lock(7) /*controller='orders'*/")
	_, events := s.wantEvents("wait-began @7 b < a")
	if e := events[0]; e.WaitingSince == nil || e.BlockedBy[0].SeenSince == nil || e.After == nil ||
		!strings.Contains(e.Code, "controller='orders'") || !strings.Contains(e.Headline, "holds @7 (excl): frees 1") {
		t.Errorf("a wait that began: %+v", e)
	}
	gotC := s.startWait(c, 2, "SELECT pg_advisory_lock(7)")
	s.wantEvents("wait-began @7 c < a")

	s.exec(a, "SELECT pg_advisory_unlock(7)")
	gotB()
	snapshot, events := s.wantEvents("passed-on @7 b < a")
	if e := events[0]; e.WaitedSeconds == nil || !strings.Contains(e.Code, "controller='orders'") {
		t.Errorf("a lock that passed on: %+v", e)
	}
	lock, _ := snapshot.Find(pglock.Int64Key(7))
	if h := lock.Holders[0]; h.SeenSince == nil || !h.SeenSince.Equal(snapshot.TakenAt) || !strings.HasPrefix(h.Code, "statement: SELECT pg_advisory_lock(7) /*controller='orders'") {
		t.Errorf("the holder: seen since %v, code %+v", h.SeenSince, h.Code)
	}

	// The journal still knows which code took the lock, and since when it is held.
	s.exec(b, "SELECT 'something else'")
	later, _ := s.wantEvents()
	lock, _ = later.Find(pglock.Int64Key(7))
	if h := lock.Holders[0]; !strings.Contains(h.Code, "controller='orders'") || !h.SeenSince.Equal(snapshot.TakenAt) {
		t.Errorf("the holder afterwards: seen since %v, code %+v", h.SeenSince, h.Code)
	}

	s.exec(b, "SELECT pg_advisory_unlock(7)")
	gotC()
	s.wantEvents("passed-on @7 c < b")
	s.exec(c, "SELECT pg_advisory_unlock(7)")
	s.wantEvents("released @7 c")
	s.exec(a, "SELECT pg_advisory_lock(7)")
	s.wantEvents("acquired @7 a")
}

func TestJournalDistinguishesTheEndOfASessionFromARelease(t *testing.T) {
	s := newFixture(t)
	a, b := s.connect("a"), s.connect("b")
	s.exec(a, "SELECT pg_advisory_lock(8), pg_advisory_lock(9)")
	s.wantEvents()
	gotB := s.startWait(b, 1, "SELECT pg_advisory_lock(8)")
	s.wantEvents("wait-began @8 b < a")
	must.Succeed(t, a.Close(context.Background()))
	gotB()
	s.wantEvents("passed-on @8 b < a (session ended)", "session-ended a")
	s.exec(b, "SELECT pg_advisory_unlock(8)")
	s.wantEvents("released @8 b")
}

// The root of the chain holds no advisory lock. The other sessions continue after it has ended.
func TestJournalSeesTheEndOfASessionThatBlocksAHolder(t *testing.T) {
	s := newFixture(t)
	owner, a, b := s.connect("owner"), s.connect("a"), s.connect("b")
	s.exec(owner, "CREATE TABLE t ()")
	s.exec(owner, "BEGIN; LOCK TABLE t")
	s.exec(a, "SELECT pg_advisory_lock(8)")
	gotB := s.startWait(b, 1, "SELECT pg_advisory_lock(8)")
	gotA := s.startTableWait(a, "t")
	s.wantEvents("wait-began @8 b < a", "wait-began relation t a < owner")
	s.wantEvents()
	c := s.connect("c")
	gotC := s.startWait(c, 2, "SELECT pg_advisory_lock(8)")
	_, events := s.wantEvents("wait-began @8 c < a")
	if e := events[0]; !strings.Contains(e.Headline, " owner") || !strings.Contains(e.Headline, "relation t") {
		t.Errorf("the headline: %s", e.Headline)
	}
	must.Succeed(t, owner.Close(context.Background()))
	gotA()
	_, events = s.wantEvents("wait-ended relation t a", "session-ended owner")
	if e := events[1]; e.Session.PID == 0 || e.Database != s.db.Name() {
		t.Errorf("the end of the root: %+v", e)
	}
	s.exec(a, "SELECT pg_advisory_unlock(8)")
	gotB()
	s.exec(b, "SELECT pg_advisory_unlock(8)")
	gotC()
}

func TestJournalSeesACancelledWait(t *testing.T) {
	s := newFixture(t)
	a, b := s.connect("a"), s.connect("b")
	s.exec(a, "SELECT pg_advisory_lock(8)")
	done := make(chan error, 1)
	go func() {
		_, err := b.Exec(context.Background(), "SELECT pg_advisory_lock(8)")
		done <- err
	}()
	s.db.WaitForWaiters(t, 1)
	s.wantEvents("wait-began @8 b < a")
	s.exec(s.connect("c"), fmt.Sprintf("SELECT pg_cancel_backend(%d)", b.PgConn().PID()))
	if err := <-done; err == nil {
		t.Fatal("the wait was not cancelled")
	}
	s.wantEvents("wait-ended @8 b")
}

func TestJournalSeesADeadlock(t *testing.T) {
	s := newFixture(t)
	a, b := s.connect("a"), s.connect("b")
	s.exec(a, "SET deadlock_timeout = '1h'")
	s.exec(b, "SET deadlock_timeout = '1h'")
	s.exec(a, "SELECT pg_advisory_lock(1)")
	s.exec(b, "SELECT pg_advisory_lock(2)")
	gotB := s.startWait(b, 1, "SELECT pg_advisory_lock(1)")
	s.wantEvents("wait-began @1 b < a")
	done := make(chan error, 1)
	go func() {
		_, err := a.Exec(context.Background(), "SELECT pg_advisory_lock(2)")
		done <- err
	}()
	s.db.WaitForWaiters(t, 2)
	_, events := s.wantEvents("wait-began @2 a < b", "deadlock")
	if e := events[1]; !e.Certain || len(e.Steps) != 2 || !strings.Contains(e.String(), "deadlock: ") {
		t.Errorf("the deadlock: %+v", e)
	}
	s.exec(s.connect("c"), fmt.Sprintf("SELECT pg_cancel_backend(%d)", a.PgConn().PID()))
	if err := <-done; err == nil {
		t.Fatal("the wait was not cancelled")
	}
	s.wantEvents("wait-ended @2 a", "deadlock-over")
	s.exec(a, "SELECT pg_advisory_unlock(1)")
	gotB()
}

// The second session has the process ID of the first. A session that takes another permit holds since it had the first.
func TestJournalKnowsSinceWhenASessionHoldsALock(t *testing.T) {
	at := time.Unix(1000, 0)
	holder := func(since int) monitor.Holder {
		began := at.Add(time.Duration(since) * time.Second)
		return monitor.Holder{Mode: "exclusive", Session: monitor.Session{PID: 7, Since: &began}}
	}
	j := journal.New()
	for i, holders := range [][]monitor.Holder{{holder(0)}, {holder(0), holder(0)}, {holder(2)}} {
		s := &monitor.Snapshot{TakenAt: at.Add(time.Duration(i) * time.Second), Locks: []monitor.Lock{{Objsubid: 1, Holders: holders}}}
		j.See(s)
		for _, h := range holders {
			if want := at.Add(time.Duration(i/2*2) * time.Second); !h.SeenSince.Equal(want) {
				t.Errorf("in snapshot %d it holds since %v, want %v", i, h.SeenSince, want)
			}
		}
	}
}

func TestJournalDoesNotClaimThatALockWasHeldThroughAGap(t *testing.T) {
	s := newFixture(t)
	a := s.connect("a")
	s.exec(a, "SELECT pg_advisory_lock(5)")
	first, _ := s.observe()
	s.j.Missed(errors.New("no route to host"))
	s.j.Missed(errors.New("another"))
	second, _ := s.wantEvents("gap (no route to host)")
	for _, snapshot := range []*monitor.Snapshot{first, second} {
		lock, _ := snapshot.Find(pglock.Int64Key(5))
		if since := lock.Holders[0].SeenSince; since == nil || !since.Equal(snapshot.TakenAt) {
			t.Errorf("seen since %v in the snapshot of %v", since, snapshot.TakenAt)
		}
	}
}

func TestJournalDoesNotReportPglocksStatementsAsCode(t *testing.T) {
	s := newFixture(t)
	open := func() *pglock.Locker {
		locker, err := pglock.Open(t.Context(), s.db.ConnString())
		must.Succeed(t, err)
		t.Cleanup(func() { must.Succeed(t, locker.Close(context.Background())) })
		return locker
	}
	lock, err := open().Lock(t.Context(), pglock.Int64Key(3))
	must.Succeed(t, err)
	second := open()
	got := make(chan *pglock.Lock, 1)
	go func() {
		l, _ := second.Lock(t.Context(), pglock.Int64Key(3)) //pglock:allow nil fails the test below
		got <- l
	}()
	s.db.WaitForWaiters(t, 1)
	_, events := s.observe()
	must.Succeed(t, lock.Unlock(t.Context()))
	l := <-got
	if l == nil {
		t.Fatal("the second Locker did not get the lock")
	}
	_, more := s.observe()
	must.Succeed(t, l.Unlock(t.Context()))
	for _, e := range append(events, more...) {
		if e.Code != "" {
			t.Errorf("%s: code %+v", summary(e), e.Code)
		}
	}
	if len(more) != 1 || more[0].Kind != journal.PassedOn {
		t.Errorf("events: %v", more)
	}
}

func TestJournalForgetsKeysThatAreNoLongerContended(t *testing.T) {
	t.Parallel()
	j := journal.New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	snapshot := func(locks ...monitor.Lock) *monitor.Snapshot {
		at = at.Add(journal.Linger + time.Minute)
		return &monitor.Snapshot{TakenAt: at, Locks: locks}
	}
	session := func(pid int32) monitor.Session { return monitor.Session{PID: pid, Since: &at} }
	lock := monitor.Lock{Key: "@1", Objsubid: 1, Number: 1, Holders: []monitor.Holder{{Session: session(1)}}}
	contended := lock
	contended.Waiters = []monitor.Waiter{{Session: session(2)}}
	for i, step := range []struct {
		locks  []monitor.Lock
		events int
	}{{[]monitor.Lock{contended}, 1}, {nil, 2}, {nil, 0}, {[]monitor.Lock{lock}, 0}} {
		if events := j.See(snapshot(step.locks...)); len(events) != step.events {
			t.Errorf("step %d: %v, want %d events", i, events, step.events)
		}
	}
}
