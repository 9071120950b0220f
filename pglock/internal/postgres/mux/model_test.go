package mux

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
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

// Random schedules of callers, answers, errors, cancels and ends are compared with a simple reference: the server's
// table of holders. Each schedule has a seed, which a failure reports. The server checks that no session locks a key
// that it already holds or releases one that it does not hold. The callers check that a granted key is held, a refused
// one is not, and a settled one has no holder. A heartbeat would repair a lost wake-up, so
// another goroutine keeps checking what the package comment says about them, and the lease must not expire.
//
// PGLOCK_TEST_SCHEDULES is the number of schedules, and PGLOCK_TEST_SEED the first seed.
func TestModel(t *testing.T) {
	schedules, seed := number(t, "PGLOCK_TEST_SCHEDULES", 1500), number(t, "PGLOCK_TEST_SEED", 1)
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
	freezes int // the server freezes for up to so many milliseconds
	step    int // microseconds; with long ones many things happen at the same moment
	budget  Budget

	mu     sync.Mutex
	random *rand.Rand
	busy   map[int64]bool // the front end's entries
}

// chance reports true once in n times on average.
func (s *schedule) chance(n int) bool { return s.below(n) == 0 }

func (s *schedule) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// upTo returns a random duration of up to n microseconds.
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
		pace := time.Duration(s.below(3)) * 200 * time.Microsecond // the distance of the server
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
		go s.watch(over)
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
			s.wrong("callers hang")
			s.session.End(driver.LostClosed, nil)
			<-done
		}
		close(over)
		s.wantNoLostRight()
		s.session.End(driver.LostClosed, nil)
		<-server.Done()
		synctest.Wait()
		if n := s.locks.Len(); n != 0 {
			s.wrong("%d keys are held at the end", n)
		}
		if n := s.budget.used.Load(); n != 0 {
			s.wrong("%d keys are counted at the end", n)
		}
	})
}

// watch looks for lost wake-ups more often than heartbeats would repair them.
func (s *schedule) watch(over chan struct{}) {
	for s.wantNoLostWakeUp() {
		select {
		case <-over:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// wantNoLostWakeUp checks that what is queued is being sent if it may be. It reports whether that is so.
func (s *schedule) wantNoLostWakeUp() bool {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	lost := s.session.cause == nil && !s.session.sending && len(s.session.queue) > 0 && s.session.windowLocked()
	if lost {
		s.wrong("a wake-up is lost")
	}
	return !lost
}

// wantNoLostRight checks that the session has not ended with its lease, since the server was never silent for that
// long.
func (s *schedule) wantNoLostRight() {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.freezes < 1000 && s.session.cause != nil && s.session.cause.Error() == wire.Ended(driver.LostLease, nil).Error() {
		s.wrong("the lease has expired")
	}
}

// judge decides what happens to a statement: usually just a delay.
func (s *schedule) judge(st wiretest.Statement, pace time.Duration) wiretest.Verdict {
	time.Sleep(pace + s.upTo(200))
	if s.chance(30) {
		time.Sleep(time.Duration(s.below(s.freezes)) * time.Millisecond) // the server is slow, or frozen for a while
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

// call makes one random call.
func (s *schedule) call() {
	s.wantNoLostWakeUp() // the call would repair it
	if s.chance(8) {
		ctx, cancel := s.context()
		defer cancel()
		_, _, _ = s.session.Call(ctx, "select 1") // any error is allowed
		return
	}
	if s.chance(3) {
		s.callTogether()
		return
	}
	key, free := s.enter()
	if !free {
		time.Sleep(s.upTo(500))
		return
	}
	o := new(owner)
	g := grantOf(o, key)
	ctx, cancel := s.context()
	defer cancel()
	err := s.session.Try(ctx, g)
	if err == nil {
		s.wantHeld(o, key)
		time.Sleep(s.upTo(1000))
		s.wantHeld(o, key)
		err = g.Release(ctx)
		if err != nil && !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrUnavailable) {
			s.wrong("release: %v", err)
		}
	}
	if open, ok := errors.AsType[*driver.UnsettledError](err); ok {
		<-open.Done
	}
	if s.locks.Holder(key) == s.server && !s.session.Ended() {
		s.wrong("key %d is held after %v", key, err)
	}
	s.leave(key)
}

// callTogether tries several keys at once, and releases those that it has got.
func (s *schedule) callTogether() {
	o, tries := new(owner), map[int64]*Grant{}
	for range 1 + s.below(4) {
		if key, free := s.enter(); free {
			tries[key] = grantOf(o, key)
		}
	}
	if len(tries) == 0 {
		return
	}
	ctx, cancel := s.context()
	defer cancel()
	keys := slices.Sorted(maps.Keys(tries))
	var grants, got []*Grant
	for _, key := range keys {
		grants = append(grants, tries[key])
	}
	errs := s.session.doAll(ctx, try, grants)
	for i, err := range errs {
		if err == nil {
			s.wantHeld(o, keys[i])
			got = append(got, grants[i])
		}
	}
	if len(got) > 0 {
		time.Sleep(s.upTo(1000))
		errs = append(errs, ReleaseAll(got)...)
	}
	for _, err := range errs {
		if open, ok := errors.AsType[*driver.UnsettledError](err); ok {
			<-open.Done
		}
	}
	for _, key := range keys {
		if s.locks.Holder(key) == s.server && !s.session.Ended() {
			s.wrong("key %d is held after %v", key, errs)
		}
		s.leave(key)
	}
}

// context returns a context that may end at any time.
func (s *schedule) context() (context.Context, context.CancelFunc) {
	if s.chance(2) {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), s.upTo(2000))
}

// wantHeld checks that the key is held on the server, unless the owner has been notified of a loss.
func (s *schedule) wantHeld(o *owner, key int64) {
	if s.locks.Holder(key) != s.server && len(o.losses()) == 0 && !s.session.Ended() {
		s.wrong("key %d was granted but is not held", key)
	}
}

// enter chooses a key, and reports whether no other caller uses it.
func (s *schedule) enter() (key int64, free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = int64(1 + s.random.IntN(6))
	free = !s.busy[key]
	s.busy[key] = true
	return key, free
}

func (s *schedule) leave(key int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, key)
}
