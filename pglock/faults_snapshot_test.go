package pglock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// waitersWithSnapshot counts the sessions that hold back the vacuum horizon.
const waitersWithSnapshot = `select count(*) from pg_stat_activity where backend_xmin is not null
	and datname = current_database() and pid in (select pid from pg_locks where locktype = 'advisory' and not granted)`

// When others create and drop objects, a session reads its catalogs again, with a snapshot. It must be released
// before the session waits.
func TestWaitersHaveNoSnapshotWhateverOthersCreate(t *testing.T) {
	db := testenv.Database(t)
	holder, conn := db.Connect(t), db.Connect(t)
	l, _ := openCounted(t, db)
	key := pglock.NewKey("k")
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	creator := db.Connect(t)
	go func() { stopped <- createAndDrop(ctx, creator) }()
	for range 20 {
		plainLock(t, holder, key)
		granted := lockLater(t, l, key)
		db.WaitForWaiters(t, 1)
		if n := must.One[int64](t, conn, waitersWithSnapshot); n != 0 {
			t.Errorf("%d waiters have a snapshot", n)
		}
		plainUnlock(t, holder, key)
		for lock := range granted {
			mustUnlock(t, lock)
		}
		if t.Failed() {
			break
		}
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	wantQuiet(t, db, l)
}

// createAndDrop changes the catalogs until ctx ends.
func createAndDrop(ctx context.Context, conn *pgx.Conn) error {
	for i := 0; ctx.Err() == nil; i++ {
		_, err := conn.Exec(context.Background(), fmt.Sprintf(`
			create domain d%[1]d as bigint check (value > 0);
			create table t%[1]d (n d%[1]d primary key check (n > 1));
			create function f%[1]d() returns int language sql as 'select 1';
			drop function f%[1]d; drop table t%[1]d; drop domain d%[1]d`, i))
		if err != nil {
			return err
		}
	}
	return nil
}

// Lock sessions do not follow the defaults that are configured for a role.
func TestWaitersHaveNoSnapshotWhateverTheirRoleDoes(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	config, err := pgxpool.ParseConfig(db.Role(t, "peculiar"))
	must.Succeed(t, err)
	role := pgx.Identifier{config.ConnConfig.User}.Sanitize()
	for _, setting := range []string{
		"default_transaction_read_only = on", "default_transaction_isolation = serializable",
		"client_encoding = latin1", "search_path = nowhere", "check_function_bodies = off",
		"standard_conforming_strings = off", "DateStyle = German",
	} {
		if _, err := admin.Exec(t.Context(), "alter role "+role+" set "+setting); err != nil && sqlstate.Of(err) != sqlstate.FeatureNotSupported { // 19 has only on
			t.Fatal(err)
		}
	}
	l, _ := openConfig(t, config)
	key := pglock.NewKey("k")
	plainLock(t, admin, key)
	granted := lockLater(t, l, key)
	db.WaitForWaiters(t, 1)
	if n := must.One[int64](t, admin, waitersWithSnapshot); n != 0 {
		t.Errorf("%d waiters have a snapshot", n)
	}
	plainUnlock(t, admin, key)
	for lock := range granted {
		mustUnlock(t, lock)
	}
	wantQuiet(t, db, l)
}
