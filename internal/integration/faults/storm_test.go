package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// storm is one trial of locks in rows: workers use a few keys while one fault follows another.
type storm struct {
	*testing.T
	tally   *faults.Tally
	pooler  *pgserver.Pooler
	pool    *pgxpool.Pool // to the server
	history *histories.History
	keys    []pglock.Key
	lockers []*stormLocker
	last    string // the last fault
}

type stormLocker struct {
	*client
	link        *testenv.Link
	connections connections
}

const stormLockers, stormWorkers, stormKeys, faultsOfAStorm = 4, 4, 4, 12

// rowsStorm checks histories of locks in rows, while whatever is between client and server, and the server itself, ends,
// hangs or loses answers.
func rowsStorm(t *testing.T, tally *faults.Tally) {
	pooler, pool := newPooler(t)
	for range scaled(1_200/faultsOfAStorm, 1) {
		s := &storm{T: t, tally: tally, pooler: pooler, pool: pool, history: histories.New()}
		number := trialNumber.Add(1)
		for i := range stormKeys {
			s.keys = append(s.keys, pglock.NewKey(fmt.Sprintf("storm-%d:%d", number, i)))
		}
		s.run(fmt.Sprintf("storm-%d", number))
		check(t, tally, fmt.Sprintf("storm-%d", number), s.history)
		tally.Trials.Add(1)
		if t.Failed() { // the trace is kept, and the server may be stuck
			return
		}
	}
}

func (s *storm) run(name string) {
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	var workers sync.WaitGroup
	for i := range stormLockers {
		l := &stormLocker{link: testenv.NewLink(0)}
		defer l.link.Close()
		var err error
		where := deployment{Kind: onRows, URL: s.pooler.ConnString()}
		if l.client, err = where.open(l.connections.through(l.link.Dial), fmt.Sprint(name, "-", i)); err != nil {
			s.Error(err)
			return
		}
		defer closeSoon(s.T, l.Locker)
		s.lockers = append(s.lockers, l)
		for range stormWorkers {
			workers.Go(func() {
				for ctx.Err() == nil {
					s.use(ctx, l)
				}
			})
		}
	}
	for i := range faultsOfAStorm {
		s.awaitProgress()
		if s.Failed() {
			break
		}
		fault := stormFaults[(i+rand.IntN(2))%len(stormFaults)]
		s.last = fault.what
		fault.make(s, s.lockers[rand.IntN(stormLockers)])
	}
	s.awaitProgress()
	stop()
	workers.Wait()
}

// awaitProgress waits until some more locks were granted.
func (s *storm) awaitProgress() {
	enough := s.history.Len() + 100
	for began := time.Now(); s.history.Len() < enough; time.Sleep(time.Millisecond) {
		if time.Since(began) > 2*patience {
			violation(s.T, s.tally, "no locks were granted for %v after %s", 2*patience, s.last)
			return
		}
	}
}

var stormFaults = []struct {
	what string
	make func(*storm, *stormLocker)
}{
	{"all sessions were ended", (*storm).terminateSessions},
	{"answers were lost", (*storm).loseAnswers},
	{"the pooler was killed", (*storm).restartPooler},
	{"nothing passed", (*storm).silence},
	{"the pooler was stopped for a while", (*storm).freezePooler},
	{"connections broke", (*storm).breakConnections},
	{"the server crashed", (*storm).crashServer},
	{"the server was stopped for a while", (*storm).freezeServer},
}

func (s *storm) terminateSessions(*stormLocker) {
	tag, err := s.pool.Exec(context.Background(), `select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid()`)
	s.report(err)
	s.tally.Kills.Add(tag.RowsAffected())
}

// loseAnswers loses the answers to one process for a moment, or for longer than its lease.
func (s *storm) loseAnswers(l *stormLocker) {
	s.tally.Partitions.Add(1)
	l.link.Cut(false, true)
	time.Sleep(rand.N(lease * 3 / 2))
	l.link.Cut(false, false)
}

func (s *storm) silence(l *stormLocker) {
	s.tally.Partitions.Add(1)
	l.link.Cut(true, true)
	time.Sleep(rand.N(2 * lease))
	l.link.Cut(false, false)
}

func (s *storm) breakConnections(l *stormLocker) {
	s.tally.Kills.Add(1)
	l.connections.breakAll()
}

func (s *storm) restartPooler(*stormLocker) {
	s.tally.Kills.Add(1)
	if err := s.pooler.Restart(context.Background()); err != nil { // no client could come through any more
		s.Errorf("the pooler was killed and did not come back: %v", err)
	}
}

// freezePooler keeps statements and answers in the pooler, which pass on later.
func (s *storm) freezePooler(*stormLocker) {
	s.tally.Freezes.Add(1)
	s.report(s.pooler.Signal(syscall.SIGSTOP))
	time.Sleep(rand.N(lease * 3 / 2))
	s.report(s.pooler.Signal(syscall.SIGCONT))
}

// crashServer kills a process of the server, which then starts again.
func (s *storm) crashServer(*stormLocker) {
	if pids := s.serverProcesses(); len(pids) > 0 {
		s.tally.Kills.Add(1)
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.Error(err)
		}
	}
}

// freezeServer stops the server's processes for a while.
func (s *storm) freezeServer(*stormLocker) {
	pids := s.serverProcesses()
	s.tally.Freezes.Add(1)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
	}
	time.Sleep(rand.N(lease * 3 / 2))
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// serverProcesses are those of the sessions of the pooler.
func (s *storm) serverProcesses() []int {
	rows, err := s.pool.Query(context.Background(), `select pid from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend' order by random()`)
	if err != nil {
		return nil // the server is starting
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil
	}
	return pids
}

func (s *storm) report(err error) {
	var broken net.Error
	if err != nil && !errors.As(err, &broken) && !errors.Is(err, os.ErrProcessDone) {
		s.Log(err) // the server may be starting
	}
}

// use takes a lock, checks it a few times, and releases it.
func (s *storm) use(ctx context.Context, l *stormLocker) {
	s.tally.Operations.Add(1)
	waiting, cancel := context.WithTimeout(ctx, rand.N(300*time.Millisecond))
	defer cancel()
	shared := rand.IntN(3) == 0
	asked := s.history.Now()
	lock, err := s.acquire(waiting, l, shared)
	if err != nil {
		if errors.Is(err, pglock.ErrLost) {
			violation(s.T, s.tally, "an acquire failed with %v", err)
		}
		time.Sleep(rand.N(5 * time.Millisecond))
		return
	}
	holder := s.history.Holder()
	add := func(event histories.Event, from, to time.Duration) {
		for _, key := range lock.Keys() {
			s.history.Add(histories.Entry{Key: key.String(), Holder: holder, Shared: shared, Event: event, From: from, To: to})
		}
	}
	add(histories.Acquired, asked, s.history.Now())
	for range rand.IntN(4) {
		from := s.history.Now()
		if lock.Err() == nil {
			add(histories.Held, from, s.history.Now())
		}
		time.Sleep(rand.N(5 * time.Millisecond))
	}
	from := s.history.Now()
	switch err := lock.Unlock(context.Background()); {
	case err == nil:
		add(histories.Released, from, s.history.Now())
	case errors.Is(err, pglock.ErrLost):
		add(histories.Lost, asked, s.history.Now())
	default: // it may be held until the end of the lease
		add(histories.Lost, asked, histories.Never)
	}
}

func (s *storm) acquire(ctx context.Context, l *stormLocker, shared bool) (*pglock.Lock, error) {
	var opts []pglock.LockOption
	if shared {
		opts = append(opts, pglock.Shared())
	}
	i := rand.IntN(stormKeys)
	switch rand.IntN(5) {
	case 0:
		return l.TryLock(ctx, s.keys[i], opts...)
	case 1:
		return l.LockAll(ctx, []pglock.Key{s.keys[i], s.keys[(i+1)%stormKeys]}, opts...)
	}
	return l.Lock(ctx, s.keys[i], opts...)
}
