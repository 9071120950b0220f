package rowlock_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

const (
	processes      = 4
	handoffs       = 4 // the handoff limit
	ofAProcess     = 3 // goroutines
	waitersWatched = 60
)

// hold is a Lock that was held. Its fencing token says when: it is of the sequence of which arrivals in the queue are too.
type hold struct {
	process string
	token   int64
}

// arrival is a process that waits in the queue of the server, and a number of the sequence from when it was seen there.
type arrival struct {
	process string
	place   int64
	seen    int64
}

// order is a history of one key.
type order struct {
	*testing.T
	mu    sync.Mutex
	holds []hold
}

// While a process waits in the queue, each other process has one turn at most, which is a grant of the server and as many
// handoffs as the limit allows. The history has no clock: tokens, places in the queue and the numbers from when
// waiters were seen there are of one sequence. A call that looked at the queue before a waiter was there can be granted the
// lock a moment later; that is its process's turn.
func TestWaitersOfAllProcessesAreServedInTheOrderOfTheirArrival(t *testing.T) {
	t.Parallel()
	pool, db := installed(t)
	o := &order{T: t}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	for i := range processes {
		name := fmt.Sprintf("process %d", i)
		l := open(t, pool, pglock.WithApplicationName(name), pglock.WithLease(time.Minute),
			pglock.WithHandoffLimit(handoffs, time.Hour))
		for range ofAProcess {
			workers.Go(func() {
				for ctx.Err() == nil {
					o.hold(ctx, l, name)
				}
			})
		}
	}
	conn := db.Connect(t)
	arrivals := o.watchQueue(conn)
	end := must.One[int64](t, conn, "SELECT nextval('pglock.fence')")
	stop() // from now on those who wait give up
	workers.Wait()
	o.holds = slices.DeleteFunc(o.holds, func(h hold) bool { return h.token > end })
	o.check(arrivals)
}

func (o *order) hold(ctx context.Context, l *pglock.Locker, process string) {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			o.Error(err)
		}
		return
	}
	token, err := lock.Fence(context.Background())
	if err != nil {
		o.Error(err)
	}
	o.mu.Lock()
	o.holds = append(o.holds, hold{process, token})
	o.mu.Unlock()
	if err := lock.Unlock(context.Background()); err != nil {
		o.Error(err)
	}
}

// watchQueue returns the waiters that it saw in the queue. It ends when there were enough, or when so many locks were held
// that waiters must have been passed over.
func (o *order) watchQueue(conn *pgx.Conn) (arrivals []arrival) {
	o.Helper()
	known := map[int64]bool{}
	testenv.WaitUntil(o.T, "there were enough waiters", func() bool {
		rows, err := conn.Query(o.Context(), `WITH waiting AS MATERIALIZED (
				SELECT h.application, q.arrival FROM pglock.lease_waiters AS q JOIN pglock.holders AS h ON h.id = q.holder)
			SELECT application, arrival, nextval('pglock.fence') FROM waiting`)
		must.Succeed(o.T, err)
		seen, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a arrival, err error) {
			return a, row.Scan(&a.process, &a.place, &a.seen)
		})
		must.Succeed(o.T, err)
		for _, a := range seen {
			if !known[a.place] {
				known[a.place] = true
				arrivals = append(arrivals, a)
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(arrivals) >= waitersWatched+processes || len(o.holds) > waitersWatched*2*processes*(handoffs+1)
	})
	return arrivals
}

// check counts the holds of the others between the arrival of a process and its turn.
func (o *order) check(arrivals []arrival) {
	o.Helper()
	slices.SortFunc(o.holds, func(a, b hold) int { return cmp.Compare(a.token, b.token) })
	watched := 0
	for _, a := range arrivals {
		passed, served := o.passed(a)
		all := 0
		for process, n := range passed {
			all += n
			if n > handoffs+1 {
				o.Errorf("%s had the lock %d times while %s waited at place %d", process, n, a.process, a.place)
			}
		}
		if all > handoffs*processes {
			o.Errorf("others had the lock %d times while %s waited at place %d", all, a.process, a.place)
		}
		if served {
			watched++
		}
	}
	if watched < waitersWatched {
		o.Errorf("%d waits were watched to their end, want %d", watched, waitersWatched)
	}
}

// passed returns how often others had the lock while a waited, and whether a was served before the test ended.
func (o *order) passed(a arrival) (by map[string]int, served bool) {
	by = map[string]int{}
	for _, h := range o.holds {
		if h.token > a.place && h.process == a.process {
			return by, true
		}
		if h.token > a.seen {
			by[h.process]++
		}
	}
	return by, false
}
