package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// cancels runs rounds of acquires whose contexts end at any moment. After each round nothing may be held.
type cancels struct {
	*testing.T
	tally   *faults.Tally
	pool    *pgxpool.Pool
	keys    []pglock.Key
	lockers []*pglock.Locker
	history *histories.History
}

func cancelledAcquires(t *testing.T, tally *faults.Tally) {
	_, pool := newServer(t)
	s := &cancels{T: t, tally: tally, pool: pool}
	for i := range 8 {
		s.keys = append(s.keys, pglock.NewKey(fmt.Sprintf("cancels:%d", i)))
	}
	for _, distance := range []time.Duration{0, 0, 0, time.Millisecond} {
		link := testenv.NewLink(distance)
		defer link.Close()
		config := pool.Config()
		config.ConnConfig.DialFunc = link.Dial
		l, err := pglock.NewWithConfig(config, pglock.WithApplicationName("cancels"))
		if err != nil {
			t.Fatal(err)
		}
		defer closeSoon(t, l)
		s.lockers = append(s.lockers, l)
	}
	whole := int64(scaled(1_000_000, 1_000))
	for tally.Cancelled.Load() < whole && !t.Failed() {
		s.round(min(whole, 25_000))
		tally.Trials.Add(1)
	}
}

// A Locker has patient callers, which wait long enough to be in the server's queue, and impatient ones, which give up
// behind them or on their way to the server.
const patient, impatient = 12, 64

// round runs until callers have given up the given number of acquires, and checks that none of them has taken a lock.
func (s *cancels) round(cancelled int64) {
	s.history = histories.New()
	enough := s.tally.Cancelled.Load() + cancelled
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	var blockers, workers sync.WaitGroup
	blockers.Go(func() { s.block(ctx) })
	work := func(l *pglock.Locker, atMost time.Duration) {
		for s.tally.Cancelled.Load() < enough && !s.Failed() {
			s.acquire(l, atMost)
		}
	}
	for _, l := range s.lockers {
		for range patient {
			workers.Go(func() { work(l, 200*time.Millisecond) })
		}
		for range impatient {
			workers.Go(func() { work(l, 2*time.Millisecond) })
		}
	}
	workers.Wait()
	stop()
	blockers.Wait()
	s.wantNothingHeld()
	check(s.T, s.tally, "cancelled acquires", s.history)
}

// block holds some of the keys most of the time, as another program would, so that most acquires have to wait.
func (s *cancels) block(ctx context.Context) {
	conn, err := pgx.ConnectConfig(context.Background(), s.pool.Config().ConnConfig)
	if err != nil {
		s.Error(err)
		return
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for ctx.Err() == nil {
		for _, key := range s.keys {
			if rand.IntN(3) > 0 {
				if _, err := conn.Exec(context.Background(), "select pg_try_advisory_lock($1)", key.Int64()); err != nil {
					s.Error(err)
					return
				}
			}
		}
		time.Sleep(rand.N(20 * time.Millisecond))
		if _, err := conn.Exec(context.Background(), "select pg_advisory_unlock_all()"); err != nil {
			s.Error(err)
			return
		}
		time.Sleep(rand.N(2 * time.Millisecond))
	}
}

// acquire asks for a lock by a method chosen at random, with a context that may end before, during or after the wait.
func (s *cancels) acquire(l *pglock.Locker, atMost time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rand.IntN(50) == 0 { // after a deadline the error names the holders, which takes a query
		ctx, cancel = context.WithTimeout(ctx, rand.N(atMost))
		defer cancel()
	} else {
		defer time.AfterFunc(rand.N(atMost), cancel).Stop()
	}
	i, shared := rand.IntN(len(s.keys)), rand.IntN(3) == 0
	var opts []pglock.LockOption
	if shared {
		opts = append(opts, pglock.Shared())
	}
	asked := s.history.Now()
	s.tally.Operations.Add(1)
	var lock *pglock.Lock
	var err error
	switch rand.IntN(32) {
	case 0:
		lock, err = l.LockAll(ctx, []pglock.Key{s.keys[i], s.keys[(i+1)%len(s.keys)]}, opts...)
	case 1, 2, 3, 4:
		lock, err = l.TryLock(ctx, s.keys[i], opts...)
	default:
		lock, err = l.Lock(ctx, s.keys[i], opts...)
	}
	switch {
	case err == nil:
		s.use(lock, shared, asked)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		s.tally.Cancelled.Add(1)
	case !errors.Is(err, pglock.ErrNotAcquired):
		s.Errorf("an acquire failed: %v", err)
	}
}

func (s *cancels) use(lock *pglock.Lock, shared bool, asked time.Duration) {
	holder := s.history.Holder()
	add := func(event histories.Event, from, to time.Duration) {
		for _, key := range lock.Keys() {
			s.history.Add(histories.Entry{Key: key.String(), Holder: holder, Shared: shared, Event: event, From: from, To: to})
		}
	}
	add(histories.Acquired, asked, s.history.Now())
	from := s.history.Now()
	switch err := lock.Unlock(context.Background()); {
	case err == nil:
		add(histories.Released, from, s.history.Now())
	case errors.Is(err, pglock.ErrLost):
		add(histories.Lost, asked, s.history.Now())
	default:
		add(histories.Lost, asked, histories.Never)
	}
}

// wantNothingHeld waits until the server holds none of the keys, and checks again a few times: nothing may be taken
// later.
func (s *cancels) wantNothingHeld() {
	deadline := time.Now().Add(10 * time.Second)
	for quiet := 0; quiet < 4; {
		held := s.heldOrWaited()
		switch {
		case held == 0:
			quiet++
		case quiet > 0:
			violation(s.T, s.tally, "%d locks were taken after every acquire had returned", held)
			return
		case time.Now().After(deadline):
			violation(s.T, s.tally, "%d locks are held or waited for, 10 s after every acquire has returned", held)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, l := range s.lockers {
		if stats := l.Stats(); stats.Held+stats.Waiting > 0 {
			violation(s.T, s.tally, "a Locker says that it holds %d locks and waits for %d", stats.Held, stats.Waiting)
		}
	}
}

func (s *cancels) heldOrWaited() (n int) {
	var keys []int64
	for _, key := range s.keys {
		keys = append(keys, key.Int64())
	}
	if err := s.pool.QueryRow(context.Background(), `select count(*) from pg_locks where locktype = 'advisory' and objsubid = 1
		and (classid::bigint << 32 | objid::bigint) = any ($1)`, keys).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}
