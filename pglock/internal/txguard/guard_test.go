package txguard

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A session with 20,000 locks is terminated, and freeing them takes many milliseconds. As soon as the next holder has
// one of the keys, the first holder guards a transaction. The session itself is not asked: the identity alone must show
// that it has ended.
//
// The key is one of the first to be freed (partition 0). Seen on a loaded machine of two cores: with an identity of the
// last partition the guard let a stale transaction pass in 34 of 40 trials, with a random one in 21. So the eight trials
// would miss a random identity in one run of 390. In each run the control shows that the test can detect a stale
// transaction.
func TestGuardFindsADyingSessionsIdentityFree(t *testing.T) {
	db := testenv.On(t, testenv.NewServer(t, map[string]string{"max_connections": "30", "max_locks_per_transaction": "1000"}))
	database := uint32(must.One[int64](t, db.Connect(t), "select oid::int8 from pg_database where datname = current_database()"))
	for range 8 {
		if passesStale(t, db, database, lockkeys.NewIdentity(database)) {
			t.Error("a transaction passed the guard of a lock that the next holder had")
		}
	}
	for trial := range 40 { // the control
		if passesStale(t, db, database, identityIn(database, partitions-1)) {
			t.Logf("the control needed %d trials", trial+1)
			return
		}
	}
	t.Error("the control never let a stale transaction pass, so this test shows nothing")
}

// passesStale reports whether a holder's transaction passes the guard when the next holder has the key.
func passesStale(t *testing.T, db *testenv.DB, database uint32, object int32) (passes bool) {
	t.Helper()
	holder, next, zombie, admin := db.Connect(t), db.Connect(t), db.Connect(t), db.Connect(t)
	key := driver.KeyID{Space: driver.SpaceBigint, Number: int64(rand.Uint64())}
	for partition(database, key) != 0 {
		key.Number++
	}
	server := must.One[string](t, admin, `select concat((date_part('epoch', pg_postmaster_start_time()) * 1000000)::int8,
		'/', current_database())`)
	s := Session{Server: server, Identity: object, Run: func(ctx context.Context, sql string, args ...string) (row string, err error) {
		if sql == lockdb.Heartbeat {
			return "alive", nil
		}
		values := make([]any, len(args))
		for i, arg := range args {
			values[i] = arg
		}
		err = holder.QueryRow(ctx, sql, values...).Scan(&row)
		return row, err
	}}
	must.One[int64](t, holder, "select count(pg_advisory_lock(n)) from generate_series(1, 20000) as n")
	must.One[int64](t, holder, "select count(pg_advisory_lock($1)) from generate_series(1, 1)", key.Number)
	must.One[int64](t, holder, "select count(pg_advisory_lock($1, $2)) from generate_series(1, 1)", lockkeys.IdentityClass, object)
	tx, err := zombie.Begin(t.Context())
	must.Succeed(t, err)
	result := make(chan error)
	go func() {
		if _, err := next.Exec(t.Context(), "select pg_advisory_lock($1)", key.Number); err != nil {
			t.Error(err)
		}
		result <- Guard(t.Context(), tx, s, Lock{Keys: []driver.KeyID{key}})
	}()
	db.WaitForWaiters(t, 1)
	must.One[bool](t, admin, "select pg_terminate_backend($1)", int32(holder.PgConn().PID()))
	err = <-result
	if err != nil && !strings.Contains(err.Error(), "which is still held") {
		t.Error(err)
	}
	for _, conn := range []*pgx.Conn{holder, next, zombie, admin} {
		_ = conn.Close(t.Context())
	}
	testenv.WaitUntil(t, "the locks are free", func() bool { return len(db.AdvisoryLocks(t)) == 0 })
	return err == nil
}

// partitions is NUM_LOCK_PARTITIONS of lwlock.h.
const partitions = 16

// partition returns the partition in which the test's server, which runs on this machine, keeps the key.
func partition(database uint32, id driver.KeyID) uint32 {
	little, big := lockkeys.TagHashes(database, id)
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return little % partitions
	}
	return big % partitions
}

// identityIn returns an identity that is freed with the other locks of a partition.
func identityIn(database, where uint32) int32 {
	for {
		object := rand.Int32()
		if partition(database, driver.PairID(lockkeys.IdentityClass, object)) == where {
			return object
		}
	}
}

// The messages are from PostgreSQL's translations.
func TestIsRefusalInAnyLanguage(t *testing.T) {
	for _, message := range []string{
		`unrecognized configuration parameter "pglock_lost"`,
		`unbekannter Konfigurationsparameter »pglock_lost«`,
		`paramètre de configuration « pglock_lost » non reconnu`,
		`нераспознанный параметр конфигурации: "pglock_lost"`,
		`設定パラメータ"pglock_lost"は不明です`,
	} {
		if !isRefusal(&pgconn.PgError{Code: "42704", Message: message}) {
			t.Errorf("%s: not recognised", message)
		}
	}
	for _, err := range []error{nil, errors.New("pglock_lost"), &pgconn.PgError{Code: "42704", Message: `unrecognized configuration parameter "x"`}} {
		if isRefusal(err) {
			t.Errorf("%v counts as a refusal", err)
		}
	}
}
