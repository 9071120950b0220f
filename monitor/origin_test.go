package monitor

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestProcessSameProcess(t *testing.T) {
	one := Session{PID: 1, Process: "1f3a9c42", User: "billing", Client: "192.0.2.7:49152"}
	for name, c := range map[string]struct {
		change func(*Session)
		same   bool
	}{
		"another session":      {func(s *Session) { s.PID = 2 }, true},
		"another port":         {func(s *Session) { s.Client = "192.0.2.7:50000" }, true},
		"another mark":         {func(s *Session) { s.Process = "00000000" }, false},
		"no mark":              {func(s *Session) { s.Process = "" }, false},
		"another role":         {func(s *Session) { s.User = "tenant" }, false},
		"another address":      {func(s *Session) { s.Client = "192.0.2.8:49152" }, false},
		"a socket":             {func(s *Session) { s.Client = "[local]" }, false},
		"an unknown address":   {func(s *Session) { s.Client = "" }, false},
		"an IPv6 address":      {func(s *Session) { s.Client = "[2001:db8::7]:49152" }, false},
		"role and mark hidden": {func(s *Session) { *s = Session{PID: 2} }, false},
	} {
		other := one
		c.change(&other)
		if one.sameProcess(other) != c.same || other.sameProcess(one) != c.same {
			t.Errorf("%s: %v, want %v", name, !c.same, c.same)
		}
	}
	if (Session{PID: 1}).sameProcess(Session{PID: 2}) {
		t.Error("two sessions without a mark are taken for one process")
	}
}

// A tenant's session has the mark of another role's process. Another session waits for that process, and the tenant
// waits for the other session. That is no deadlock, since the process itself does not wait.
func TestProcessAForgedMarkMakesNoDeadlockAndNoSiblings(t *testing.T) {
	db := testenv.Database(t)
	const mark = "billing (pglock 1f3a9c42)"
	connect := func(connString string) *pgx.Conn {
		config, err := pgx.ParseConfig(connString)
		must.Succeed(t, err)
		config.RuntimeParams["application_name"] = mark
		conn, err := pgx.ConnectConfig(t.Context(), config)
		must.Succeed(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	lock := func(conn *pgx.Conn, key int) {
		if _, err := conn.Exec(t.Context(), "select pg_advisory_lock($1)", key); err != nil {
			t.Fatal(err)
		}
	}
	tenant := db.Role(t, "tenant")
	holder, sibling, forger := connect(db.ConnString()), connect(db.ConnString()), connect(tenant)
	other, unrelated := db.Connect(t), db.Connect(t)
	lock(holder, 1)
	lock(other, 2)
	lock(unrelated, 3)
	db.Queue(t, other, "select pg_advisory_lock(1)")
	db.Queue(t, forger, "select pg_advisory_lock(2)")
	db.Queue(t, sibling, "select pg_advisory_lock(3)")
	s, err := Take(t.Context(), db.Connect(t))
	must.Succeed(t, err)
	if len(s.Cycles) > 0 {
		t.Errorf("there are cycles: %+v", s.Cycles)
	}
	c, err := s.Target(SessionID{PID: int32(holder.PgConn().PID())})
	must.Succeed(t, err)
	if len(c.Siblings) != 1 || c.Siblings[0].PID != int32(sibling.PgConn().PID()) {
		t.Errorf("its siblings are %+v", c.Siblings)
	}
}
