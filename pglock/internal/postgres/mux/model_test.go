package mux

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/lease"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// Random schedules of callers, answers, errors, cancels and ends are compared with a trivial reference: a table of holders
// that the server keeps. A schedule has one seed, which a failure names. The server checks that no session locks a key that
// it has, or releases one that it has not; the callers, that a key that was granted is held, one that was refused is not, and
// one that was settled has no owner. A heartbeat would repair a lost wake-up, and the end of the lease a lost right to send:
// so a guard looks all the time whether what the package comment says of them holds, and the lease must not run out.
//
// PGLOCK_TEST_SCHEDULES says how many; PGLOCK_TEST_SEED is the first seed.
func TestModel(t *testing.T) {
	schedules, seed := number(t, "PGLOCK_TEST_SCHEDULES", 3000), number(t, "PGLOCK_TEST_SEED", 1)
	var all sync.WaitGroup
	const workers = 4
	for worker := range workers {
		all.Go(func() {
			for n := worker; n < schedules && !t.Failed(); n += workers {
				runSchedule(t, uint64(seed+n))
			}
		})
	}
	all.Wait()
}

func number(t *testing.T, name string, usual int) int {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s is %q", name, text)
	}
	return n
}

// schedule is one run of the model.
type schedule struct {
	*testing.T
	seed    uint64
	locks   *wiretest.Locks
	session *Session
	server  *wiretest.Server
	freezes int // the server, for up to so many milliseconds
	step    int // microseconds; with long ones many things happen at the same moment
	budget  Budget

	mu     sync.Mutex
	random *rand.Rand
	busy   map[int64]bool // the front end's entries
}

// chance is true once in n times.
func (s *schedule) chance(n int) bool { return s.below(n) == 0 }

func (s *schedule) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// upTo is a time of up to n microseconds.
func (s *schedule) upTo(n int) time.Duration {
	return time.Duration(s.below(n/s.step)*s.step) * time.Microsecond
}

func (s *schedule) wrong(format string, args ...any) {
	s.Helper()
	s.Errorf("seed %d: %s", s.seed, fmt.Sprintf(format, args...))
}

func runSchedule(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{T: t, seed: seed, locks: wiretest.NewLocks(t), random: rand.New(rand.NewPCG(seed, 0)), busy: map[int64]bool{}}
		pace := time.Duration(s.below(3)) * 200 * time.Microsecond // 0 is next door, the others are far
		s.freezes = []int{400, 400, 400, 4000}[s.below(4)]
		s.step = []int{1, 100}[s.below(2)]
		conn, server := wiretest.Start(s.locks, func(st wiretest.Statement) wiretest.Verdict { return s.judge(st, pace) })
		s.server = server
		s.session = NewSession(conn, lease.New(testLease, driver.Now), &s.budget, slog.New(slog.DiscardHandler), func(*Session) {})
		var callers sync.WaitGroup
		for range 2 + s.below(6) {
			callers.Go(func() {
				for range 1 + s.below(5) {
					s.call()
				}
			})
		}
		over := make(chan struct{})
		go s.guard(over)
		if s.chance(4) {
			time.Sleep(s.upTo(3000))
			s.server.Terminate()
		}
		done := make(chan struct{})
		go func() {
			callers.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(time.Hour):
			s.wrong("callers wait for ever")
			s.session.End(driver.ReasonClosed, nil)
			<-done
		}
		close(over)
		s.wantNoLostRight()
		s.session.End(driver.ReasonClosed, nil)
		<-server.Done()
		synctest.Wait()
		if n := s.locks.Len(); n != 0 {
			s.wrong("%d keys are held in the end", n)
		}
		if n := s.budget.used.Load(); n != 0 {
			s.wrong("%d keys are counted in the end", n)
		}
	})
}

// guard looks for lost wake-ups all the time. Heartbeats come less often.
func (s *schedule) guard(over chan struct{}) {
	for s.wantNoLostWakeUp() {
		select {
		case <-over:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// wantNoLostWakeUp wants each right to be taken if it could be used, and an idle session to be read from, or soon.
func (s *schedule) wantNoLostWakeUp() bool {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	unsent := !s.session.sending && len(s.session.queue) > 0 && s.session.windowLocked()
	unread := !s.session.reading && (len(s.session.batches) > 0 || !s.session.sending && !s.session.idleTimed)
	lost := s.session.cause == nil && (unsent || unread)
	if lost {
		s.wrong("a wake-up is lost (to send: %v, to read: %v)", unsent, unread)
	}
	return !lost
}

// wantNoLostRight wants a session that has ended to have done so for another reason than its lease, which the server has
// not been silent for.
func (s *schedule) wantNoLostRight() {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.freezes < 1000 && s.session.cause != nil && s.session.cause.Error() == wire.Ended(driver.ReasonLease, nil).Error() {
		s.wrong("the lease has run out")
	}
}

// judge says what becomes of a statement: mostly nothing but a delay.
func (s *schedule) judge(st wiretest.Statement, pace time.Duration) wiretest.Verdict {
	time.Sleep(pace + s.upTo(200))
	if s.chance(30) {
		time.Sleep(time.Duration(s.below(s.freezes)) * time.Millisecond) // a server that is slow, or frozen for a while
	}
	switch {
	case st.SQL != "" || st.Asks:
		return wiretest.Verdict{}
	case s.chance(12):
		code := []string{"53200", "57014"}[s.below(2)]
		return wiretest.Verdict{Upto: s.below(len(st.Keys) + 1), Code: code}
	case s.chance(60):
		return wiretest.Verdict{Fatal: true, Half: s.chance(2)}
	}
	return wiretest.Verdict{Half: s.chance(6)}
}

// call does one of the things that callers do.
func (s *schedule) call() {
	s.wantNoLostWakeUp() // which what follows would repair
	if s.chance(8) {
		ctx, cancel := s.context()
		defer cancel()
		_, _, _ = s.session.Call(ctx, "select 1") // it may fail in every way
		return
	}
	keys := s.enter(1 + s.below(3)*s.below(2))
	if len(keys) == 0 {
		time.Sleep(s.upTo(500))
		return
	}
	o := new(owner)
	g := grantOf(o, keys...)
	ctx, cancel := s.context()
	defer cancel()
	err := s.session.Try(ctx, g)
	if err == nil {
		s.wantHeld(o, keys)
		time.Sleep(s.upTo(1000))
		s.wantHeld(o, keys)
		err = g.Release(ctx)
		if err != nil && !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrUnavailable) {
			s.wrong("release: %v", err)
		}
	}
	if open, ok := errors.AsType[*driver.UnsettledError](err); ok {
		<-open.Done
	}
	if !s.session.Ended() {
		for _, key := range keys {
			if s.locks.Holder(key) == s.server && !s.session.Ended() {
				s.wrong("key %d is held after %v", key, err)
			}
		}
	}
	s.leave(keys)
}

// context may end at any time.
func (s *schedule) context() (context.Context, context.CancelFunc) {
	if s.chance(2) {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), s.upTo(2000))
}

// wantHeld wants the server to agree, unless the owner has been told otherwise.
func (s *schedule) wantHeld(o *owner, keys []int64) {
	for _, key := range keys {
		if s.locks.Holder(key) != s.server && len(o.losses()) == 0 && !s.session.Ended() {
			s.wrong("key %d was granted, and is not held", key)
		}
	}
}

// enter takes up to n keys whose entries are free.
func (s *schedule) enter(n int) (keys []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		if key := int64(1 + s.random.IntN(6)); !s.busy[key] {
			s.busy[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

func (s *schedule) leave(keys []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		delete(s.busy, key)
	}
}
