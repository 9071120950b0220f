package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/pglock"
)

// updates runs read-modify-write transactions under locks whose sessions are terminated all the time. The workers
// continue after a loss, like a holder that has not noticed it yet, so only the guard can keep them from writing.
type updates struct {
	*testing.T
	tally   *faults.Tally
	pool    *pgxpool.Pool
	open    func(*pgxpool.Config, ...pglock.Option) (*pglock.Locker, error)
	kill    string // a statement that ends holders, a few at a time; a row for each
	guarded bool
	begin   time.Time
	kills   int

	mu      sync.Mutex
	commits []porcupine.Operation
	unsure  []unsureCommit
}

type unsureCommit struct {
	id string
	porcupine.Operation
}

// increment is a committed transaction that found n in a counter and wrote n+1.
type increment struct{ counter, n int }

// counterModel is a counter that loses no update.
var counterModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[int][]porcupine.Operation{}
		for _, op := range history {
			counter := op.Input.(increment).counter
			parts[counter] = append(parts[counter], op)
		}
		var all [][]porcupine.Operation
		for _, part := range parts {
			all = append(all, part)
		}
		return all
	},
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		n := input.(increment).n
		return n == state.(int), n + 1
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("found %d", input.(increment).n) },
}

const counters = 16

// extraLocks is how many more locks some Lockers hold, so that the server takes a while to free those of a dead
// session, one by one.
const extraLocks = 300

func guardedUpdates(t *testing.T, tally *faults.Tally) {
	newUpdates(t, tally, true, scaled(10_000, 50)).runGuarded()
}

func (u *updates) runGuarded() {
	t, tally := u.T, u.tally
	u.run()
	lost := u.lost()
	if lost > 0 {
		violation(t, tally, "%d guarded updates were lost", lost)
	}
	result, info := porcupine.CheckOperationsVerbose(counterModel, u.commits, 2*time.Minute)
	if result != porcupine.Ok {
		violation(t, tally, "the history of %d guarded commits is %s", len(u.commits), result)
		if err := porcupine.VisualizePath(counterModel, info, findings(t)+"/guarded.html"); err != nil {
			t.Error(err)
		}
	}
}

// unguardedUpdates shows what the guard prevents, and that the campaign would notice if it did not work. Lost updates
// are no violation here.
func unguardedUpdates(t *testing.T, tally *faults.Tally) {
	newUpdates(t, tally, false, scaled(1_000, 50)).runUnguarded()
}

func (u *updates) runUnguarded() {
	u.run()
	u.Logf("without the guard %d of %d updates were lost", u.lost(), len(u.commits))
	u.tally.Part += fmt.Sprintf(" (%d of %d updates lost)", u.lost(), len(u.commits))
}

func newUpdates(t *testing.T, tally *faults.Tally, guarded bool, kills int) *updates {
	t.Helper()
	_, pool := newServer(t)
	u := &updates{T: t, tally: tally, pool: pool, open: pglock.NewWithConfig, kill: killSessions, guarded: guarded, kills: kills}
	u.createCounters()
	return u
}

func (u *updates) createCounters() {
	if _, err := u.pool.Exec(u.Context(), `create table counter (id int primary key, n int not null);
		insert into counter select id, 0 from generate_series(0, 15) as id;
		create table committed (id text primary key)`); err != nil {
		u.Fatal(err)
	}
	u.begin = time.Now()
}

func (u *updates) run() {
	const lockers, workersOfALocker = 6, 6
	ctx, stop := context.WithCancel(u.Context())
	defer stop()
	var workers sync.WaitGroup
	for i := range lockers {
		l, err := u.open(u.pool.Config(), pglock.WithApplicationName("updates"), pglock.WithLease(5*time.Second))
		if err != nil {
			u.Fatal(err)
		}
		defer closeSoon(u.T, l)
		for range workersOfALocker {
			workers.Go(func() {
				for ctx.Err() == nil {
					u.update(ctx, l)
				}
			})
		}
		if i%2 == 0 {
			workers.Go(func() { u.holdExtraLocks(ctx, l, i) })
		}
	}
	u.endHolders(ctx)
	stop()
	workers.Wait()
	u.resolve()
}

const killSessions = `select pg_terminate_backend(pid) from (select a.pid from pg_stat_activity a
	where datname = current_database() and application_name like 'updates (%'
	and exists (select from pg_locks l where l.pid = a.pid and locktype = 'advisory' and objsubid = 1 and granted)
	order by random() limit 3) as victim`

// endHolders ends holders of locks, a few at a time.
func (u *updates) endHolders(ctx context.Context) {
	stuck := time.Now()
	for killed := 0; killed < u.kills; {
		tag, err := u.pool.Exec(ctx, u.kill)
		if err != nil {
			u.Fatal(err)
		}
		if n := int(tag.RowsAffected()); n > 0 {
			killed += n
			u.tally.Kills.Add(int64(n))
			stuck = time.Now()
		} else if time.Since(stuck) > patience {
			violation(u.T, u.tally, "no lock was held for %v", patience)
			return
		}
		time.Sleep(rand.N(4 * time.Millisecond))
	}
}

// update adds one to a counter, in steps between which others could write.
func (u *updates) update(ctx context.Context, l *pglock.Locker) {
	counter := rand.IntN(counters)
	u.tally.Operations.Add(1)
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lock, err := l.Lock(waiting, pglock.NewKey(fmt.Sprintf("counter:%d", counter)))
	if err != nil {
		return // the time is over, or the session was killed and has not been replaced yet
	}
	defer func() { _ = lock.Unlock(context.Background()) }()
	begin := time.Since(u.begin)
	id, n, err := u.transact(ctx, lock, counter)
	op := porcupine.Operation{Input: increment{counter, n}, Call: int64(begin), Return: int64(time.Since(u.begin))}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err == nil:
		u.commits = append(u.commits, op)
		u.tally.Trials.Add(1)
	case errors.Is(err, pglock.ErrLost):
		u.tally.Refused.Add(1)
	case errors.Is(err, errUnsure):
		u.unsure = append(u.unsure, unsureCommit{id, op})
	}
}

var (
	errUnsure = errors.New("the commit was not confirmed")
	commits   atomic.Int64
)

func (u *updates) transact(ctx context.Context, lock *pglock.Lock, counter int) (id string, n int, err error) {
	id = fmt.Sprintf("commit-%d", commits.Add(1))
	tx, err := u.pool.Begin(ctx)
	if err != nil {
		return id, 0, err
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	time.Sleep(rand.N(time.Millisecond))
	if u.guarded {
		if err := lock.GuardTx(ctx, tx); err != nil {
			return id, 0, err
		}
	}
	if err := tx.QueryRow(ctx, "select n from counter where id = $1", counter).Scan(&n); err != nil {
		return id, 0, err
	}
	time.Sleep(rand.N(time.Millisecond))
	batch := new(pgx.Batch)
	batch.Queue("update counter set n = $2 where id = $1", counter, n+1)
	batch.Queue("insert into committed values ($1)", id)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return id, n, err
	}
	if err := tx.Commit(ctx); err != nil {
		return id, n, errors.Join(errUnsure, err)
	}
	return id, n, nil
}

// resolve asks the server about commits that it has not confirmed.
func (u *updates) resolve() {
	for _, unsure := range u.unsure {
		var committed bool
		if err := u.pool.QueryRow(u.Context(), "select exists (select from committed where id = $1)", unsure.id).Scan(&committed); err != nil {
			u.Fatal(err)
		}
		if committed {
			u.commits = append(u.commits, unsure.Operation)
		}
	}
}

// lost returns how many commits are missing from the counters.
func (u *updates) lost() int {
	var sum int
	if err := u.pool.QueryRow(u.Context(), "select sum(n) from counter").Scan(&sum); err != nil {
		u.Fatal(err)
	}
	return len(u.commits) - sum
}

// holdExtraLocks makes the Locker hold many locks whenever it can.
func (u *updates) holdExtraLocks(ctx context.Context, l *pglock.Locker, locker int) {
	for ctx.Err() == nil {
		var taking sync.WaitGroup
		locks := make([]*pglock.Lock, extraLocks)
		for i := range locks {
			taking.Go(func() {
				lock, err := l.TryLock(ctx, pglock.NewKey(fmt.Sprintf("extra:%d:%d", locker, i)))
				if err == nil {
					locks[i] = lock
				}
			})
		}
		taking.Wait()
		for _, lock := range locks {
			if lock == nil {
				continue
			}
			select {
			case <-ctx.Done():
			case <-lock.Done():
			}
			_ = lock.Unlock(context.Background())
		}
	}
}
