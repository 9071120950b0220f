package rowadapters

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var key = pglock.NewKey("migrations")

// place is a database with the schema, and a pooler of transactions in front of it.
type place struct {
	*testenv.DB
	owner   *pgxpool.Pool
	through string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	db := testenv.Installed(t)
	return &place{db, db.Pool(t), testenv.PgBouncer(t, db, testenv.TransactionPooling) + "&default_query_exec_mode=exec"}
}

// locker returns what a process has: a Locker whose locks are in rows, and which goes through the pooler.
func (p *place) locker(t *testing.T, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), p.through)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	l, err := rowlock.New(pool, opts...)
	must.Succeed(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ctx) // it ends what a test that has failed still holds
	})
	return l
}

// loseAll has the server end the leases of all processes.
func (p *place) loseAll(t *testing.T) {
	t.Helper()
	_, err := p.owner.Exec(context.Background(), "UPDATE pglock.holders SET ended = true")
	must.Succeed(t, err)
}

// files are migrations for goose and golang-migrate. The second continues only when the other two processes wait for the
// lock, and the third builds its index while they wait.
func files(up, down string) fstest.MapFS {
	sql := map[string]string{
		"1_shop": "create table invoices (id bigint); create table runs (step int);",
		"2_wait": `do $$ begin
			insert into runs values (2);
			for i in 1..3000 loop
				exit when (select count(*) from pglock.lease_waiters) >= 2;
				perform pg_catalog.pg_sleep(0.01);
			end loop; end $$;`,
		"3_index": "create index concurrently invoices_id on invoices (id)",
	}
	fs := fstest.MapFS{}
	for name, statements := range sql {
		fs[name+up] = &fstest.MapFile{Data: []byte(statements)}
		if down == "" { // goose has marks in the files
			begin := "-- +goose Up\n-- +goose StatementBegin\n"
			if name == "3_index" {
				begin = "-- +goose NO TRANSACTION\n" + begin
			}
			fs[name+up].Data = []byte(begin + statements + "\n-- +goose StatementEnd\n")
		}
	}
	return fs
}

// migrateAtOnce lets three processes migrate at once, and checks that one of them did.
func migrateAtOnce(t *testing.T, up func(*testing.T, *place) error) {
	t.Helper()
	p := newPlace(t)
	errs := make([]error, 3)
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() { errs[i] = up(t, p) })
	}
	running.Wait()
	must.Succeed(t, errors.Join(errs...))
	var runs int
	var index *string
	must.Succeed(t, p.owner.QueryRow(t.Context(), "select count(*), to_regclass('invoices_id')::text from runs").Scan(&runs, &index))
	if runs != 1 || index == nil {
		t.Errorf("the migration ran %d times, and its index is %v", runs, index)
	}
}
