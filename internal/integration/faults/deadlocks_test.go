package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// party is a process, as far as deadlocks go. (What makes it one is no public API.)
type party struct {
	pool           *pgxpool.Pool
	sessions, rows *pglock.Locker
}

// deadlocks closes cycles of two to six processes over locks of sessions, in rows and of transactions. Each has to end
// within 2.5 s, but for one in a hundred, and with one victim.
func deadlocks(t *testing.T, tally *faults.Tally) {
	db, _ := newServer(t)
	config := db.Config(t)
	config.MaxConns = 200
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	parties := make([]party, 6)
	for i := range parties {
		p := party{pool: pool}
		var err, also error
		p.sessions, err = pglock.New(pool)
		p.rows, also = rowlock.New(pool)
		if err = errors.Join(err, also); err != nil {
			t.Fatal(err)
		}
		hooks.Process(p.sessions, p.rows)
		t.Cleanup(func() { closeSoon(t, p.sessions); closeSoon(t, p.rows) })
		parties[i] = p
	}
	var mu sync.Mutex
	var took []time.Duration
	var all []func()
	for i := range scaled(1000, 24) {
		all = append(all, func() {
			victims, after := cycle(t, parties[:2+rand.IntN(5)], fmt.Sprint("cycle ", i))
			if victims != 1 {
				violation(t, tally, "a cycle has %d victims", victims)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, after)
			tally.Trials.Add(1)
		})
	}
	atOnce(4, all)
	slices.Sort(took)
	late := took[min(len(took)-1, len(took)*99/100)]
	t.Logf("%d cycles; in 99 of 100 the victim gave up within %v of the last wait's beginning", len(took), late)
}

// cycle lets each party hold one lock and wait for the next one's.
func cycle(t *testing.T, parties []party, name string) (victims int, after time.Duration) {
	var all, have sync.WaitGroup
	have.Add(len(parties))
	kinds := make([]int, len(parties))
	for i := range kinds {
		kinds[i] = rand.IntN(3)
	}
	var mu sync.Mutex
	var closed, first time.Time
	for i, p := range parties {
		next := (i + 1) % len(parties)
		all.Go(func() {
			ctx, tx, free, err := p.take(t.Context(), nil, kinds[i], pglock.NewKey(fmt.Sprint(name, i)))
			have.Done()
			defer free()
			if err != nil {
				t.Error(err)
				return
			}
			have.Wait()
			mu.Lock()
			closed = time.Now()
			mu.Unlock()
			_, _, freeNext, err := p.take(ctx, tx, kinds[next], pglock.NewKey(fmt.Sprint(name, next)))
			defer freeNext()
			ended := (*pgconn.PgError)(nil)
			if errors.Is(err, pglock.ErrDeadlock) || errors.As(err, &ended) && ended.Code == "40P01" {
				mu.Lock()
				defer mu.Unlock()
				if victims++; victims == 1 {
					first = time.Now()
				}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return victims, first.Sub(closed)
}

// take takes a lock, in tx if it is one of a transaction and there is one, and returns a context for what is done under it.
func (p party) take(ctx context.Context, tx pgx.Tx, kind int, key pglock.Key) (under context.Context, _ pgx.Tx, free func(), err error) {
	free = func() {}
	if kind < 2 {
		lock, err := []*pglock.Locker{p.sessions, p.rows}[kind].Lock(ctx, key)
		if err != nil {
			return nil, nil, free, err
		}
		return lock.Context(ctx), tx, func() { _ = lock.Unlock(ctx) }, nil
	}
	if tx == nil {
		if tx, err = p.pool.BeginTx(ctx, pgx.TxOptions{}); err != nil {
			return nil, nil, free, err
		}
		free = func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }
	}
	if err = pglock.LockTx(ctx, tx, key); err == nil {
		under, err = pglock.TxContext(ctx, tx)
	}
	return under, tx, free, err
}
