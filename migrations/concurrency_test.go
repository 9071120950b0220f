package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func TestUpAndDownAtOnceDoOneAfterTheOther(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	single := db.Config(t)
	single.MaxConns = 1
	var wg sync.WaitGroup
	for i := range 4 {
		pool, err := pgxpool.NewWithConfig(t.Context(), single.Copy())
		must.Succeed(t, err)
		t.Cleanup(pool.Close)
		for range 3 { // which share a pool of one connection
			wg.Go(func() {
				for range 3 {
					migrate := migrations.Up
					if i == 0 {
						migrate = migrations.Down
					}
					if err := migrate(t.Context(), pool); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	pool := db.Pool(t)
	mustUp(t, pool)
	wantVersion(t, pool, migrations.Latest())
}

// holdLock holds the migrations' lock until the returned function is called, without a transaction.
func holdLock(t *testing.T, db *testenv.DB) (pid uint32, release func()) {
	t.Helper()
	conn := db.Connect(t)
	execute(t, conn, "SELECT pg_advisory_lock($1)", number("pglock:migrations"))
	return conn.PgConn().PID(), func() {
		execute(t, conn, "SELECT pg_advisory_unlock($1)", number("pglock:migrations"))
	}
}

func TestTheContextBoundsTheWaitAndTheErrorNamesTheHolder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		migrate func(context.Context, *pgxpool.Pool, ...migrations.Option) error
		install bool
	}{
		"up": {migrations.Up, false}, "down": {migrations.Down, true},
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			if test.install {
				install(t, db.Connect(t), "up")
			}
			pid, release := holdLock(t, db)
			pool := db.Pool(t)
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() { result <- test.migrate(ctx, pool) }()
			waitUntilRefused(t, pool)
			cancel()
			err := <-result
			if !errors.Is(err, context.Canceled) || !errors.Is(err, driver.ErrNotAcquired) {
				t.Errorf("the context ended while another session held the lock: %v", err)
			}
			wantMentioned(t, err, fmt.Sprintf("pid %d", pid), t.Name())
			release()
			mustUp(t, pool)
			wantVersion(t, pool, migrations.Latest())
		})
	}
}

// waitUntilRefused waits until a call of Up or Down has found the lock taken. The call must be alone in using the pool:
// it takes a connection for each try.
func waitUntilRefused(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testenv.WaitUntil(t, "the lock was tried twice", func() bool { return pool.Stat().AcquireCount() >= 3 })
}

func TestAWaitingUpIsNotInTheWayOfCreateIndexConcurrently(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	conn := db.Connect(t)
	execute(t, conn, "CREATE TABLE public.big (id int)")
	_, release := holdLock(t, db)
	pool := db.Pool(t)
	result := make(chan error, 1)
	go func() { result <- migrations.Up(t.Context(), pool) }()
	waitUntilRefused(t, pool)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := conn.Exec(ctx, "CREATE INDEX CONCURRENTLY ON public.big (id)"); err != nil {
		t.Errorf("beside a waiting Up: %v", err)
	}
	release()
	if err := <-result; err != nil {
		t.Error(err)
	}
	wantVersion(t, pool, migrations.Latest())
}

// blockUp makes Up stop in the middle, until resume is called: another session makes a schema of that name.
func blockUp(
	ctx context.Context, t *testing.T, db *testenv.DB,
) (pool *pgxpool.Pool, result <-chan error, resume func()) {
	t.Helper()
	conn := db.Connect(t)
	execute(t, conn, "BEGIN; CREATE SCHEMA pglock")
	pool = db.Pool(t)
	returned := make(chan error, 1)
	go func() { returned <- migrations.Up(ctx, pool) }()
	watcher := db.Connect(t)
	testenv.WaitUntil(t, "Up is stuck", func() bool { return must.One[int](t, watcher, "SELECT count(*)"+stuck) == 1 })
	return pool, returned, func() { execute(t, conn, "ROLLBACK") }
}

const stuck = ` FROM pg_locks JOIN pg_stat_activity USING (pid)
	WHERE datname = current_database() AND locktype = 'transactionid' AND NOT granted`

func TestAnUpThatIsStuckEndsWithItsContextOrSessionAndLeavesNothing(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	conn := db.Connect(t)
	before := catalog(t, conn)
	ctx, cancel := context.WithCancel(t.Context())
	_, result, resume := blockUp(ctx, t, db)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrNotAcquired) {
		t.Errorf("the context ended in the middle: %v", err)
	}
	resume()
	pool, result, resume := blockUp(t.Context(), t, db)
	execute(t, conn, "SELECT pg_terminate_backend(pid)"+stuck)
	err := <-result
	wantState(t, err, "57P01")
	wantMentioned(t, err, "install the schema")
	resume()
	if after := catalog(t, conn); after != before {
		t.Errorf("the catalog was\n%s\nand is\n%s", before, after)
	}
	mustUp(t, pool)
	wantVersion(t, pool, migrations.Latest())
}

func TestUpDoesNotWaitWhenThereIsNothingToDo(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	_, release := holdLock(t, db)
	mustUp(t, pool)
	release()
}
