package monitor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

var details = []string{"client", "backend_type", "leader_pid", "state", "state_since", "query", "session_since", "transaction_since",
	"xmin_age", "xid_age", "wait_event_type", "wait_event"}

func TestSessionIsDescribed(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, "SET application_name = 'payroll'", "BEGIN", "SELECT pg_advisory_lock(1), 'the holder'")
	pid := startWaiter(t, db, "SELECT pg_advisory_lock_shared(1), 'the waiter'")

	lock := find(t, take(t, db.Pool(t)), pglock.Int64Key(1))
	if h := lock.Holders[0]; h.Application != "payroll" || h.State != "idle in transaction" ||
		h.Query != "SELECT pg_advisory_lock(1), 'the holder'" {
		t.Errorf("the holder is %+v", h)
	}
	if w := lock.Waiters[0]; w.Mode != "shared" || w.State != "active" || !strings.Contains(w.Query, "the waiter") ||
		w.WaitEventType != "Lock" || w.WaitEvent != "advisory" {
		t.Errorf("the waiter is %+v", w)
	}
	requireActivity(t, db, lock.Holders[0].Session, pidOf(holder))
	requireActivity(t, db, lock.Waiters[0].Session, pid)
}

// activity is a row of pg_stat_activity.
type activity struct {
	User, Database, Application, Client, State, Query string
	Since                                             time.Time
	TransactionSince, StateSince                      *time.Time
}

func requireActivity(t *testing.T, db *testenv.DB, s monitor.Session, pid int32) {
	t.Helper()
	rows, err := db.Pool(t).Query(t.Context(), `
		SELECT usename, datname, application_name, coalesce(host(client_addr) || ':' || client_port, '[local]'), state,
		       query, backend_start, xact_start, state_change
		FROM pg_stat_activity WHERE pid = $1`, pid)
	must.Succeed(t, err)
	want, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[activity])
	must.Succeed(t, err)
	if s.PID != pid || s.User != want.User || s.Database != want.Database || s.Application != want.Application ||
		s.Client != want.Client || s.State != want.State || s.Query != want.Query || !same(s.Since, &want.Since) ||
		!same(s.TransactionSince, want.TransactionSince) || !same(s.StateSince, want.StateSince) || len(s.Hidden) != 0 {
		t.Errorf("session %d is %+v, want %+v", pid, s, want)
	}
}

func same(a, b *time.Time) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Equal(*b))
}

func TestSessionARoleWithoutGrantsSeesWhatIsHidden(t *testing.T) {
	db := testenv.Database(t)
	other := connectAs(t, db.Role(t, "norights"))
	holder := session(t, db, "SET application_name = 'payroll'", "SELECT pg_advisory_lock(1)")
	waiter := startWaiter(t, db, "SELECT pg_advisory_lock(1)")
	execute(t, other, "SELECT pg_advisory_lock(2)")

	s := take(t, other)
	requireServerState(t, db, s)
	owner := take(t, db.Pool(t)).Role
	lock := find(t, s, pglock.Int64Key(1))
	requireBlockers(t, lock, waiter, monitor.Blocker{PID: pidOf(holder), Kind: "hard"})
	waiting := &lock.Waiters[0]
	if waiting.WaitingSince == nil {
		t.Error("the waiter's time is missing, although every role may see it")
	}
	for _, session := range []monitor.Session{lock.Holders[0].Session, waiting.Session} {
		want := monitor.Session{PID: session.PID, User: owner, Database: db.Name(), Application: session.Application,
			SignalledBy: "a superuser"}
		if !slices.Equal(session.Hidden, details) {
			t.Errorf("hidden of %d are %v, want %v", session.PID, session.Hidden, details)
		}
		if session.Hidden = nil; texts([]monitor.Session{session})[0] != texts([]monitor.Session{want})[0] {
			t.Errorf("got %+v, want %+v", session, want)
		}
	}
	if lock.Holders[0].Application != "payroll" {
		t.Errorf("the holder's application is %q", lock.Holders[0].Application)
	}
	if !strings.Contains(s.DetailsHidden, "GRANT pg_read_all_stats TO \""+s.Role+"\"") {
		t.Errorf("DetailsHidden is %q", s.DetailsHidden)
	}
	if own := find(t, s, pglock.Int64Key(2)).Holders[0]; len(own.Hidden) != 0 || own.Query == "" || own.Since == nil {
		t.Errorf("the role's own session is %+v", own)
	}
}

func TestSessionPgMonitorSeesEverything(t *testing.T) {
	db := testenv.Database(t)
	connString := db.Role(t, "dba")
	dba := connectAs(t, connString)
	execute(t, db.Pool(t), "GRANT pg_monitor TO "+quoted(dba.Config().User))
	holder := session(t, db, "SELECT pg_advisory_lock(1)")

	s := take(t, dba)
	requireServerState(t, db, s)
	if s.DetailsHidden != "" {
		t.Errorf("something is hidden: %s", s.DetailsHidden)
	}
	requireActivity(t, db, find(t, s, pglock.Int64Key(1)).Holders[0].Session, pidOf(holder))
}

// A session can run a query whose text is PostgreSQL's mark for a hidden query.
func TestSessionAQueryThatLooksHiddenIsShown(t *testing.T) {
	db := testenv.Database(t)
	holder := session(t, db, "SELECT pg_advisory_lock(1)")
	if _, err := holder.Exec(t.Context(), "<insufficient privilege>", pgx.QueryExecModeSimpleProtocol); err == nil {
		t.Fatal("invalid SQL was executed")
	}
	shown := find(t, take(t, db.Pool(t)), pglock.Int64Key(1)).Holders[0]
	if shown.Query != "<insufficient privilege>" || len(shown.Hidden) != 0 || shown.State != "idle" {
		t.Errorf("the holder is %+v", shown)
	}
}

func quoted(identifier string) string { return pgx.Identifier{identifier}.Sanitize() }
