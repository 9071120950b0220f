package waitsession

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/lease"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// rig is a pool on a scripted server.
type rig struct {
	*Pool
	t      *testing.T
	dials  atomic.Int32
	ended  atomic.Int32                // sessions
	dial   func(context.Context) error // what opening a session takes
	judge  func(wiretest.Statement) wiretest.Verdict
	onMux  func(ctx context.Context, sql string) (value string)
	opened []*wiretest.Server
}

func newRig(t *testing.T, most int) *rig {
	r, locks, log := &rig{t: t}, wiretest.NewLocks(t), slog.New(slog.DiscardHandler)
	r.dial = func(context.Context) error { return nil }
	r.judge = func(wiretest.Statement) wiretest.Verdict { return wiretest.Verdict{} }
	r.onMux = func(context.Context, string) string { return "on a mux session" }
	var err error
	r.Pool, err = New(Config{
		Most: most, LookEvery: time.Hour, Log: log,
		Open: func(ctx context.Context, onEnd func(*mux.Session)) (*mux.Session, error) {
			r.dials.Add(1)
			if err := r.dial(ctx); err != nil {
				return nil, err
			}
			conn, server := wiretest.Start(locks, r.judge)
			conn.GuardPID = int32(conn.PID)
			r.opened = append(r.opened, server)
			return mux.NewSession(conn, lease.New(time.Hour, driver.Now), new(mux.Budget), log, func(s *mux.Session) {
				r.ended.Add(1)
				onEnd(s)
			}), nil
		},
		Call: func(ctx context.Context, sql string, _ ...string) (string, bool, error) {
			return r.onMux(ctx, sql), true, nil
		},
	})
	must.Succeed(t, err)
	return r
}

func isWait(st wiretest.Statement) bool { return strings.Contains(st.SQL, lockdb.LockSession[:20]) }

// enter takes a place for a caller that polls in vain.
func (r *rig) enter() *place {
	r.t.Helper()
	s, tried, err := r.takeOrTry(r.t.Context(), func() bool { return false })
	if s == nil || tried || err != nil {
		r.t.Fatalf("no place: %v, %v", tried, err)
	}
	return s
}

// carry takes a place and makes it carry a lock.
func (r *rig) carry() *mux.Grant {
	g, s := mux.NewGrant(driver.KeyID{Number: 1}, false, deaf{}), r.enter()
	must.Succeed(r.t, s.Value().Carry(r.t.Context(), g, func() { giveBack(s) }, func() error { return nil }))
	return g
}

type deaf struct{}

func (deaf) Lost(driver.LostReason, error) {}

func noRoom(context.Context) error { return driver.ErrUnavailable }

func TestAFreePlaceGoesToTheOldestPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		first := r.enter()
		places := make(chan int, 3)
		for i := range 3 {
			go func() {
				s := r.enter()
				places <- i
				time.Sleep(time.Minute)
				giveBack(s)
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		giveBack(first)
		for want := range 3 {
			if got := <-places; got != want {
				t.Errorf("caller %d got the place before caller %d", got, want)
			}
		}
		if n := r.dials.Load(); n != 1 {
			t.Errorf("%d sessions were opened for one place", n)
		}
		time.Sleep(time.Minute)
		r.Close()
	})
}

// If a try ends the wait just when there is a session, the session is for the next caller.
func TestATryThatWinsGivesThePlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		first := r.enter()
		s, tried, err := r.takeOrTry(t.Context(), func() bool {
			giveBack(first)
			synctest.Wait() // the caller has the place
			return true
		})
		if s != nil || !tried || err != nil {
			t.Errorf("a try that took the lock: %v, %v", tried, err)
		}
		giveBack(r.enter())
		r.Close()
	})
}

// Callers for whom no session can be opened try all the same, in the end at the same moments, so that their tries share
// statements; and few of them dial. When a session is idle, or has ended and so made room, the next one has it at once.
func TestCallersWithoutASessionTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		first := r.enter()
		r.dial = noRoom
		ctx, cancel := context.WithTimeout(t.Context(), 64*time.Second)
		defer cancel()
		tries := map[time.Time]int{} // by their moments
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, tried, err := r.Wait(ctx, driver.Request{}, func() bool {
					mu.Lock()
					defer mu.Unlock()
					tries[time.Now()]++
					return false
				}); tried || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a caller without a session: %v, %v", tried, err)
				}
			})
		}
		time.Sleep(63 * time.Second)
		if n := r.dials.Load(); n < 1+13 || n > 1+2*13 { // at two places
			t.Errorf("%d dials in 63 s", n)
		}
		all.Wait()
		moments, late := 0, 0
		for at, n := range tries {
			if left := time.Since(at); left < time.Second {
				moments, late = moments+1, late+n
			}
		}
		if late < 50 || moments > 21 {
			t.Errorf("the callers have made %d tries at %d moments of the last second", late, moments)
		}
		time.Sleep(openAgain + time.Second) // so that closeIdle does not look just when the session is to be taken
		if n := r.sessions.Stat().ConstructingResources(); n > 0 {
			t.Errorf("%d places are kept for callers that have left", n)
		}
		time.AfterFunc(time.Second, func() { giveBack(first) })
		began, dials := time.Now(), r.dials.Load()
		s := r.enter()
		r.dial = func(context.Context) error { return nil }
		s.Value().End(driver.LostSession, nil)
		giveBack(s)
		giveBack(r.enter())
		took, more := time.Since(began), r.dials.Load()-dials
		if s != first || took > time.Second || more != 2 {
			t.Errorf("the idle session was taken: %v; another one was opened after %v, with %d dials", s == first, took, more)
		}
		r.Close()
	})
}

// A session that is opened for a caller that gives up is for the next one.
func TestACallerThatGivesUpWastesNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.dial = func(context.Context) error { time.Sleep(2 * time.Second); return nil }
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		if _, _, err := r.Wait(ctx, driver.Request{}, func() bool { return false }); !errors.Is(err, enough) {
			t.Error(err)
		}
		giveBack(r.enter())
		if n := r.dials.Load(); n != 1 {
			t.Errorf("%d sessions were opened", n)
		}
		r.Close()
	})
}

// Of idle sessions the one that was used last is used next; the others are closed after a while. One that has ended is never
// used.
func TestIdleSessionsAreUsedWhileTheyLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		other, used := r.enter(), r.enter()
		giveBack(other)
		giveBack(used)
		for range 8 {
			time.Sleep(5 * time.Second)
			if s := r.enter(); s != used {
				t.Fatal("it is not the one that was used last")
			}
			giveBack(used)
		}
		<-r.opened[0].Done() // hangs if it is kept
		call := func(want string) {
			t.Helper()
			if value, _, err := r.Call(t.Context(), "select 1"); value != want || err != nil {
				t.Errorf("a call: %q, %v", value, err)
			}
			synctest.Wait()
		}
		r.opened[1].Terminate()
		synctest.Wait()
		s := r.enter()
		if s.Value().Ended() || r.dials.Load() != 3 {
			t.Errorf("it has ended: %v; %d sessions were opened", s.Value().Ended(), r.dials.Load())
		}
		giveBack(s)
		call("1")
		r.opened[2].Terminate()
		call("on a mux session") // the idle one does not answer
		call("on a mux session") // there is none
		call("1")
		r.Close()
	})
}

// A session that is lost frees its place once, whatever its owner does then, and not before its connection is closed.
func TestALostSessionFreesItsPlaceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, silent := newRig(t, 1), make(chan struct{})
		r.judge = func(st wiretest.Statement) wiretest.Verdict {
			if st.SQL == "silence" {
				<-silent
			}
			return wiretest.Verdict{}
		}
		g := r.carry()
		go func() { _, _, _ = g.Session().Call(t.Context(), "silence") }()
		synctest.Wait()
		go g.Session().End(driver.LostClosed, nil)
		s := r.enter()
		if r.ended.Load() != 1 {
			t.Error("there are two sessions for one place")
		}
		if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
			t.Error(err)
		}
		if n := r.sessions.Stat().AcquiredResources(); n != 1 {
			t.Errorf("%d places are in use", n)
		}
		giveBack(s)
		r.Close()
		close(silent)
	})
}

// Close ends the sessions, whether one waits, carries a lock or is being opened, and the waits of all callers, also of one
// that cancels its wait or has just been refused a session.
func TestCloseWaitsForNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, silent := newRig(t, 4), make(chan struct{})
		r.judge = func(st wiretest.Statement) wiretest.Verdict {
			if isWait(st) {
				<-silent
			}
			return wiretest.Verdict{}
		}
		r.onMux = func(ctx context.Context, _ string) string { <-ctx.Done(); return "" }
		r.carry()
		var all sync.WaitGroup
		call := func(ctx context.Context, want error) {
			all.Go(func() {
				if g, tried, err := r.Wait(ctx, driver.Request{}, func() bool { return false }); g != nil || tried || !errors.Is(err, want) {
					t.Errorf("%v, %v, %v", g, tried, err)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		call(ctx, context.Canceled) // it waits on a session
		r.dial = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		call(t.Context(), driver.ErrClosed)
		r.dial = noRoom
		call(t.Context(), driver.ErrClosed)
		call(t.Context(), driver.ErrClosed) // it has no place
		cancel()
		synctest.Wait()
		began := time.Now()
		r.Close()
		if n, took := r.ended.Load(), time.Since(began); n != 2 || took > 2*time.Second { // in which the server reads nothing
			t.Errorf("%d of 2 sessions have ended after %v", n, took)
		}
		all.Wait()
		close(silent)
	})
}
