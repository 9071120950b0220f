package pglock_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
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
	for range testenv.Trials(t, 100) {
		plainLock(t, holder, key)
		granted := lockLater(t, l, key)
		db.WaitForWaiters(t, 1)
		if n := number(t, conn, waitersWithSnapshot); n != 0 {
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

// A session that cannot wait without a snapshot waits in slices, so that CREATE INDEX CONCURRENTLY ends there too.
func TestWaitersDoNotBlockOthersForLong(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *testenv.DB) *pglock.Locker{
		"without the right to make temporary objects": func(t *testing.T, db *testenv.DB) *pglock.Locker { return openWithoutTemp(t, db) },
		"where the trick fails":                       openWithoutCommit,
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			holder, conn := db.Connect(t), db.Connect(t)
			l := open(t, db)
			key := pglock.NewKey("k")
			plainLock(t, holder, key)
			granted := lockLater(t, l, key)
			db.WaitForWaiters(t, 1)
			testenv.WaitUntil(t, "the waiter has a snapshot, so there is something to show", func() bool {
				return number(t, conn, waitersWithSnapshot) == 1
			})
			_, indexed := createIndex(t, db, "beside_a_slice")
			wantNoError(t, indexed, "CREATE INDEX CONCURRENTLY beside a waiter in slices")
			plainUnlock(t, holder, key)
			for lock := range granted {
				if err := lock.Verify(minuteContext(t)); err != nil {
					t.Error(err)
				}
				mustUnlock(t, lock)
			}
			wantQuiet(t, db, l)
		})
	}
}

func openWithoutTemp(t *testing.T, db *testenv.DB, opts ...pglock.Option) *pglock.Locker {
	config, err := pgxpool.ParseConfig(db.Role(t, "without_temp"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Connect(t).Exec(t.Context(), "revoke temporary on database "+
		pgx.Identifier{db.Name()}.Sanitize()+" from public"); err != nil {
		t.Fatal(err)
	}
	l, _ := openConfig(t, config, opts...)
	return l
}

// openWithoutCommit makes sessions that keep the snapshot that COMMIT would release.
func openWithoutCommit(t *testing.T, db *testenv.DB) *pglock.Locker {
	config := db.Config(t)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return rewriter{conn, []byte("\n        COMMIT;"), []byte("\n        NULL;  ")}, err
	}
	l, _ := openConfig(t, config)
	return l
}

// rewriter replaces text in what is sent by text of the same length.
type rewriter struct {
	net.Conn
	from, to []byte
}

func (c rewriter) Write(b []byte) (int, error) {
	return c.Conn.Write(bytes.ReplaceAll(b, c.from, c.to))
}

// Lock sessions do not follow the defaults that are configured for a role.
func TestWaitersHaveNoSnapshotWhateverTheirRoleDoes(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	config, err := pgxpool.ParseConfig(db.Role(t, "peculiar"))
	if err != nil {
		t.Fatal(err)
	}
	role := pgx.Identifier{config.ConnConfig.User}.Sanitize()
	for _, setting := range []string{
		"default_transaction_read_only = on", "default_transaction_isolation = serializable",
		"client_encoding = latin1", "search_path = nowhere", "check_function_bodies = off",
		"standard_conforming_strings = off", "DateStyle = German",
	} {
		if _, err := admin.Exec(t.Context(), "alter role "+role+" set "+setting); err != nil {
			t.Fatal(err)
		}
	}
	l, _ := openConfig(t, config)
	key := pglock.NewKey("k")
	plainLock(t, admin, key)
	granted := lockLater(t, l, key)
	db.WaitForWaiters(t, 1)
	if n := number(t, admin, waitersWithSnapshot); n != 0 {
		t.Errorf("%d waiters have a snapshot", n)
	}
	plainUnlock(t, admin, key)
	for lock := range granted {
		mustUnlock(t, lock)
	}
	wantQuiet(t, db, l)
}
