package once_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

// Workers get every message several times, and their sessions may end between any two statements. Failed messages are
// delivered again, as by a queue. The effects are counted in the database.
func TestOnceEffectsHappenExactlyOnceWhateverCrashes(t *testing.T) {
	db, admin := installed(t)
	config := db.Config(t)
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	execute(t, pool, "CREATE TABLE effects (id text NOT NULL)") // nothing else keeps them unique
	const messages, copies, workers, steps = 40, 3, 6, 5
	var queue []string
	for i := range messages * copies {
		queue = append(queue, fmt.Sprint("message ", i%messages))
	}
	rand.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	var mu sync.Mutex
	next := func() (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(queue) == 0 {
			return "", false
		}
		id := queue[0]
		queue = queue[1:]
		return id, true
	}
	again := func(id string) {
		mu.Lock()
		defer mu.Unlock()
		queue = append(queue, id)
	}
	ctx, consumer := bounded(t), scope(t, "consumer")
	var turns atomic.Int64 // so that workers crash at every step, but not for ever
	var crashes atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for id, ok := next(); ok; id, ok = next() {
				crash := int(turns.Add(1) % (2 * steps)) // half of the deliveries succeed
				if crash < steps {
					crashes.Add(1)
				}
				if !handle(ctx, consumer, pool, admin, id, crash) {
					again(id)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatal("the workers did not finish")
	}
	if n, distinct := one[int](t, pool, "SELECT count(*) FROM effects"),
		one[int](t, pool, "SELECT count(DISTINCT id) FROM effects"); n != messages || distinct != messages {
		t.Errorf("%d effects of %d messages, want %d of %[3]d", n, distinct, messages)
	}
	t.Logf("%d crashes in %d deliveries", crashes.Load(), turns.Load())
}

// handle delivers a message, and reports whether the worker acknowledged it. A worker that crashes does not.
func handle(ctx context.Context, consumer *once.Scope, pool, admin *pgxpool.Pool, id string, crash int) (acknowledged bool) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return ctx.Err() != nil
	}
	defer conn.Release()
	at := func(step int) bool {
		if crash != step {
			return false
		}
		_, err := admin.Exec(ctx, "SELECT pg_terminate_backend($1)", conn.Conn().PgConn().PID())
		return err == nil
	}
	if at(0) {
		return false
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = tx.Rollback(ctx) }() // or it has ended already
	if at(1) {
		return false
	}
	switch err := consumer.Tx(ctx, tx, id); {
	case isDone(err):
		return !at(2) // it crashes before it acknowledges
	case err != nil:
		return false
	}
	if at(2) {
		return false
	}
	if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", id); err != nil || at(3) {
		return false
	}
	if err := tx.Commit(ctx); err != nil {
		return false
	}
	return !at(4)
}

func isDone(err error) bool {
	_, ok := err.(*once.DoneError)
	return ok && errors.Is(err, pglock.ErrDone)
}
