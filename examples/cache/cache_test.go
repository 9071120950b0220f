package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// asProgram is a variable that makes the test binary the program.
const asProgram = "PGLOCK_EXAMPLE_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	testenv.Main(m)
}

func TestCacheProgramCountsOneRequestWithTheLock(t *testing.T) {
	program := exec.Command(os.Args[0], "-processes=2", "-callers=5", "-takes=10ms")
	program.Env = append(os.Environ(), asProgram+"=yes", "DATABASE_URL="+testenv.Database(t).ConnString())
	out, err := program.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "with a lock       1 requests to the origin") {
		t.Errorf("%v\n%s", err, out)
	}
}

const processes, callers = 3, 20

// caches returns one cache for each process, on one database.
func caches(t *testing.T) (list [processes]*cache) {
	t.Helper()
	pool := testenv.Database(t).Pool(t)
	_, err := pool.Exec(t.Context(), schema)
	must.Succeed(t, err)
	for i := range list {
		locker, err := pglock.New(pool)
		must.Succeed(t, err)
		t.Cleanup(func() { must.Succeed(t, locker.Close(context.Background())) })
		list[i] = &cache{pool: pool, locker: locker, keep: time.Hour}
	}
	return list
}

// together lets all callers of all processes ask, and returns their errors.
func together(list [processes]*cache, get func(*cache) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all error
	for _, c := range list {
		for range callers {
			wg.Go(func() {
				err := get(c)
				mu.Lock()
				all = errors.Join(all, err)
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	return all
}

func TestCacheOneCallerOfAllProcessesAsksTheOrigin(t *testing.T) {
	list := caches(t)
	var asked atomic.Int64
	err := together(list, func(c *cache) error {
		value, err := c.get(t.Context(), "price", func(context.Context, string) (string, error) {
			asked.Add(1)
			return "7", nil
		})
		if err == nil && value != "7" {
			err = errors.New("a caller got the value " + value)
		}
		return err
	})
	must.Succeed(t, err)
	if asked.Load() != 1 {
		t.Errorf("the origin was asked %d times", asked.Load())
	}
}

// Without the lock, all ask: the origin answers when the last has asked.
func TestCacheWithoutALockAllAskTheOrigin(t *testing.T) {
	list := caches(t)
	var asked sync.WaitGroup
	asked.Add(processes * callers)
	must.Succeed(t, together(list, func(c *cache) error {
		_, err := c.getWithoutLock(t.Context(), "price", func(context.Context, string) (string, error) {
			asked.Done()
			asked.Wait()
			return "7", nil
		})
		return err
	}))
}

func TestCacheTheNextCallerAsksIfOneFails(t *testing.T) {
	c := caches(t)[0]
	down := errors.New("the origin is down")
	_, err := c.get(t.Context(), "price", func(context.Context, string) (string, error) { return "", down })
	if !errors.Is(err, down) {
		t.Fatal(err)
	}
	value, err := c.get(t.Context(), "price", func(context.Context, string) (string, error) { return "7", nil })
	if value != "7" || err != nil {
		t.Error(value, err)
	}
}

func TestCacheOneCallerRefreshes(t *testing.T) {
	list := caches(t)
	var asked int
	must.Succeed(t, list[0].refresh(t.Context(), "price", func(ctx context.Context, name string) (string, error) {
		asked++
		return "8", list[1].refresh(ctx, name, func(context.Context, string) (string, error) {
			asked++
			return "9", nil
		})
	}))
	value, err := list[2].get(t.Context(), "price", func(context.Context, string) (string, error) { return "", errors.New("asked") })
	if asked != 1 || value != "8" || err != nil {
		t.Error(asked, value, err)
	}
}
