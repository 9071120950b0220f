package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/suites/ratelimittest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// askOn is a variable with a connection string. If it is set, the test binary is a process that asks for many keys on
// that database.
const askOn = "PGLOCK_TEST_RATELIMIT_ASK"

// limits is the key of all limiters.
var limits = pglock.NewKey("limits")

func TestMain(m *testing.M) {
	if connString := os.Getenv(askOn); connString != "" {
		if err := askForMany(connString); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.MainAlone(m)
}

// askForMany asks for overlapping sets of keys at the same time, in every order.
func askForMany(connString string) error {
	const callers, rounds, keys = 64, 60, 40
	pool, err := pgxpool.New(context.Background(), connString)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := ratelimit.New(pool, limits, ratelimit.Timeout(patience))
	if err != nil {
		return err
	}
	errs := make(chan error, callers)
	for range callers {
		go func() {
			var err error
			for i := 0; i < rounds && err == nil; i++ {
				key := fmt.Sprint("k", rand.N(keys))
				_, err = l.AllowN(context.Background(), key, ratelimit.Limit{Count: 1e6, Per: time.Second}, 1+rand.N(3))
			}
			errs <- err
		}()
	}
	for range callers {
		err = errors.Join(err, <-errs)
	}
	return err
}

func TestRatelimitProcessesWithOverlappingKeysDoNotDeadlock(t *testing.T) {
	db, _ := installed(t)
	self, err := os.Executable()
	must.Succeed(t, err)
	var processes [4]*exec.Cmd
	var outputs [len(processes)]bytes.Buffer
	for i := range processes {
		processes[i] = exec.CommandContext(t.Context(), self)
		processes[i].Env = append(os.Environ(), askOn+"="+db.ConnString())
		processes[i].Stderr = &outputs[i]
		must.Succeed(t, processes[i].Start())
	}
	for i, process := range processes {
		if err := process.Wait(); err != nil {
			t.Errorf("process %d: %v\n%s", i, err, &outputs[i])
		}
	}
}

func TestRatelimitInMemory(t *testing.T) {
	var store ratelimittest.Memory
	ratelimittest.Exercise(t, func(t testing.TB) *ratelimit.Limiter {
		l, err := ratelimit.NewWithStore(&store, limits, ratelimit.Timeout(patience))
		must.Succeed(t, err)
		return l
	})
}

func TestRatelimitOnPostgreSQL(t *testing.T) {
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
func open(t testing.TB, db ratelimit.DB, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(db, limits, append([]ratelimit.Option{ratelimit.Timeout(patience)}, opts...)...)
	must.Succeed(t, err)
	return l
}
