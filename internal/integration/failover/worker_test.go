package failover_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/once"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

const (
	lease    = 2 * time.Second
	patience = 2 * time.Minute
	// atMost bounds a call, as a service's own deadline does.
	atMost = 4 * time.Second
	// permits and rate are the limits that the workers share; a window is as long as that of the rate.
	permits = 3
	rate    = 20
	window  = time.Second
)

// worker is a process that uses everything that pglock has.
type worker struct {
	*history
	t       *testing.T
	number  int
	guarded bool
	pool    *pgxpool.Pool
	locker  *pglock.Locker

	gate      *semaphore.Semaphore
	job, inTx *schedule.Job
	scope     *once.Scope
	limiter   *ratelimit.Limiter
}

func newWorker(t *testing.T, h *history, number int, guarded bool, url string) *worker {
	w := &worker{history: h, t: t, number: number, guarded: guarded}
	config, err := pgxpool.ParseConfig(url)
	must.Succeed(t, err)
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(lease.Milliseconds(), 10)
	w.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	w.locker, err = pglock.New(w.pool, pglock.WithLease(lease), pglock.WithApplicationName(fmt.Sprintf("worker-%d", number)),
		pglock.WithLogger(slog.New(slog.DiscardHandler)))
	must.Succeed(t, err)
	w.gate, err = semaphore.New(w.locker, pglock.NewKey("gate"), permits)
	must.Succeed(t, err)
	w.job, err = schedule.New(w.locker, pglock.NewKey("job"))
	must.Succeed(t, err)
	w.inTx, err = schedule.New(w.locker, pglock.NewKey("job in a transaction"))
	must.Succeed(t, err)
	w.scope, err = once.New(pglock.NewKey("messages"))
	must.Succeed(t, err)
	w.limiter, err = ratelimit.New(w.pool, pglock.NewKey("calls"), ratelimit.WithTimeout(atMost))
	must.Succeed(t, err)
	return w
}

// kinds are the kinds of work, each of which must go on after a failover.
var kinds = map[string]func(*worker, context.Context){
	"guarded": (*worker).update,
	"token":   (*worker).draw,
	"leader":  (*worker).lead,
	"run":     (*worker).run,
	"runTx":   (*worker).runTx,
	"permit":  (*worker).take,
	"once":    (*worker).doOnce,
	"rate":    (*worker).call,
}

func (w *worker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.locker.Close(ctx)
	w.pool.Close()
}

func (w *worker) pause() { time.Sleep(5*time.Millisecond + rand.N(30*time.Millisecond)) }

var names atomic.Int64

func newName(kind string) string { return fmt.Sprintf("%s-%d", kind, names.Add(1)) }

// update holds a lock for a few transactions, each of which adds one to a counter. It takes no notice of a loss.
func (w *worker) update(ctx context.Context) {
	counter := fmt.Sprintf("counter-%d", rand.IntN(4))
	lock, err := w.locker.Lock(ctx, pglock.NewKey(counter))
	if err != nil {
		return
	}
	defer func() { _ = lock.Unlock(context.WithoutCancel(ctx)) }()
	for range 10 {
		if w.increment(ctx, lock, "guarded", counter, newName("update")) != nil && w.guarded {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// increment adds one to the counter of a unit, in steps between which others could write.
func (w *worker) increment(ctx context.Context, lock *pglock.Lock, kind, unit, id string) error {
	return w.transact(ctx, &write{kind: kind, unit: unit, id: id}, func(tx pgx.Tx, port int) error {
		if w.guarded {
			if err := lock.GuardTx(ctx, tx); err != nil {
				return err
			}
			w.reached(port)
		}
		var n int
		if err := tx.QueryRow(ctx, "select coalesce(max(n), 0) from counter where unit = $1", unit).Scan(&n); err != nil {
			return err
		}
		time.Sleep(rand.N(5 * time.Millisecond))
		_, err := tx.Exec(ctx, `insert into counter values ($1, $2 + 1) on conflict (unit) do update set n = excluded.n`, unit, n)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "insert into written values ($1, $2, $3, $4 + 1)", kind, unit, id, n)
		return err
	})
}

// transact records what a transaction was told, and where it was.
func (w *worker) transact(ctx context.Context, record *write, do func(tx pgx.Tx, port int) error) error {
	record.from = w.now()
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	err = tx.QueryRow(ctx, "select current_setting('port')::int").Scan(&record.port)
	if err == nil {
		err = do(tx, record.port)
	}
	if err != nil {
		return err
	}
	err = tx.Commit(ctx)
	record.confirmed, record.to = err == nil, w.now()
	var flushed string
	if err == nil && conn.QueryRow(ctx, "select pg_current_wal_flush_lsn()::text").Scan(&flushed) == nil {
		record.position = position(w.t, flushed)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, record)
	if err == nil {
		w.countLocked(record.kind, w.number)
	}
	return err
}

// draw draws a fencing token, and holds the lock on for a while.
func (w *worker) draw(ctx context.Context) {
	key := fmt.Sprintf("fenced-%d", rand.IntN(2))
	from := w.now()
	lock, err := w.locker.Lock(ctx, pglock.NewKey(key))
	if err != nil {
		return
	}
	granted := w.now()
	defer func() { _ = lock.Unlock(context.WithoutCancel(ctx)) }()
	if value, err := lock.Fence(ctx); err == nil {
		to := w.now()
		w.add("token", w.number, func() { w.tokens = append(w.tokens, token{key, from, to, value}) })
	}
	w.believe(ctx, key, granted, lock.Err, 20*time.Millisecond)
}

// believe records how long a holder is told that it holds a key, for some time.
func (w *worker) believe(ctx context.Context, key string, from time.Duration, held func() error, long time.Duration) {
	last := from
	for until := from + long; last < until && ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		now := w.now()
		if held() != nil {
			break
		}
		last = now
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds = append(w.holds, hold{key, from, last})
}

// term is longer than a lease, so that an overlap of two leaders can last as long as it may.
const term = lease + time.Second

// lead leads for a term, with guarded writes.
func (w *worker) lead(ctx context.Context) {
	over := errors.New("the term is over")
	_ = leader.Run(ctx, w.locker, pglock.NewKey("leader"), func(ctx context.Context, lock *pglock.Lock) error {
		from, name := w.now(), newName("term")
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.believe(ctx, "leader", from, lock.Err, term)
		}()
		for w.now() < from+term && ctx.Err() == nil {
			_ = w.increment(ctx, lock, "leader", "leader", name+newName(":"))
			w.pause()
		}
		<-done
		return over
	}, leader.WithBackoff(10*time.Millisecond, 100*time.Millisecond))
}

// due is the time of the next run, for all workers.
func due(every time.Duration) time.Time { return time.Now().Truncate(every) }

func (w *worker) run(ctx context.Context) {
	due := due(200 * time.Millisecond)
	_ = w.job.Run(ctx, due, func(context.Context, *pglock.Lock) error {
		now := w.now()
		w.add("run", w.number, func() { w.runs = append(w.runs, run{due, now}) })
		return nil
	})
	w.pause()
}

func (w *worker) runTx(ctx context.Context) {
	due := due(200 * time.Millisecond)
	record := &write{kind: "runTx", unit: due.Format(time.RFC3339Nano), id: newName("run"), from: w.now()}
	err := w.inTx.RunTx(ctx, w.pool, due, func(ctx context.Context, tx pgx.Tx, _ *pglock.Lock) error {
		if err := tx.QueryRow(ctx, "select current_setting('port')::int").Scan(&record.port); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "insert into written values ($1, $2, $3, 0)", record.kind, record.unit, record.id)
		return err
	})
	record.to = w.now()
	if record.port != 0 {
		record.confirmed = err == nil
		w.mu.Lock()
		w.writes = append(w.writes, record)
		if err == nil {
			w.countLocked("runTx", w.number)
		}
		w.mu.Unlock()
	}
	w.pause()
}

func (w *worker) take(ctx context.Context) {
	permit, err := w.gate.Acquire(ctx)
	if err != nil {
		return
	}
	from := w.now()
	w.believe(ctx, "gate", from, permit.Err, 30*time.Millisecond)
	w.add("permit", w.number, func() {})
	_ = permit.Release(context.WithoutCancel(ctx))
}

// doOnce asks for one of the messages that the other workers ask for now, too.
func (w *worker) doOnce(ctx context.Context) {
	id := fmt.Sprint(time.Now().UnixMilli() / 50)
	record := &write{kind: "once", unit: id, id: newName("message")}
	_ = w.transact(ctx, record, func(tx pgx.Tx, _ int) error {
		if err := w.scope.Tx(ctx, tx, id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "insert into written values ('once', $1, $2, 0)", id, record.id)
		return err
	})
	w.pause()
}

func (w *worker) call(ctx context.Context) {
	from := w.now()
	_, err := w.limiter.Allow(ctx, "all", ratelimit.Limit{Count: rate, Per: window}.Strict())
	if err == nil {
		to := w.now()
		w.add("rate", w.number, func() { w.passes = append(w.passes, pass{from, to}) })
	}
	w.pause()
}

// work repeats one kind of work until the end of the test.
func (w *worker) work(ctx context.Context, do func(*worker, context.Context)) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, atMost)
		do(w, limited)
		cancel()
	}
}
