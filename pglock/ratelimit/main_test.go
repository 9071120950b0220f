package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/suites/ratelimittest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// limits is the key of all limiters.
var limits = pglock.NewKey("limits")

func TestMain(m *testing.M) { testenv.MainAlone(m) }

// Each Limiter sends statements of its own, as a process does.
func TestRatelimitStatementsWithOverlappingKeysDoNotDeadlock(t *testing.T) {
	_, pool := installed(t)
	const limiters, callers, rounds, keys = 4, 64, 20, 40
	var asking sync.WaitGroup
	for range limiters {
		l := open(t, pool)
		for range callers {
			asking.Go(func() {
				for range rounds {
					_, err := l.AllowN(t.Context(), fmt.Sprint("k", rand.N(keys)), ratelimit.Limit{Count: 1e6, Per: time.Second}, 1+rand.N(3))
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	asking.Wait()
}

func TestRatelimitInMemory(t *testing.T) {
	var store ratelimittest.Memory
	ratelimittest.Exercise(t, func(t testing.TB) *ratelimit.Limiter {
		l, err := ratelimittest.New(&store, limits, ratelimit.WithTimeout(patience))
		must.Succeed(t, err)
		return l
	})
}

func TestRatelimitOnPostgresPassesTheSuite(t *testing.T) {
	_, pool := installed(t)
	ratelimittest.Exercise(t, func(t testing.TB) *ratelimit.Limiter { return open(t, pool) })
}

// installed returns a pool for a new database that has the schema.
func installed(t *testing.T) (*testenv.DB, *pgxpool.Pool) {
	t.Helper()
	db := testenv.Installed(t)
	return db, db.Pool(t)
}

// open returns a Limiter that gives a loaded machine time to answer.
func open(t testing.TB, db pglock.DB, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(db, limits, append([]ratelimit.Option{ratelimit.WithTimeout(patience)}, opts...)...)
	must.Succeed(t, err)
	return l
}
