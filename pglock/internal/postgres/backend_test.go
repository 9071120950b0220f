package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/lease"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/waitsession"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
	"github.com/pglock-toolkit/pglock/pglock/internal/recorder"
)

var errFull = fmt.Errorf("%w: too many connections", driver.ErrUnavailable)

// newScripted returns a backend on a scripted server that lets most sessions in.
func newScripted(t *testing.T, locks *wiretest.Locks, most int32) *Backend {
	t.Helper()
	var opened atomic.Int32
	b := &Backend{Recorder: &recorder.Recorder{}, asking: make(chan struct{}, 1)}
	open := func(_ context.Context, onEnd func(*mux.Session)) (*mux.Session, error) {
		if opened.Add(1) > most {
			return nil, errFull
		}
		conn, _ := wiretest.Start(locks, func(wiretest.Statement) wiretest.Verdict { return wiretest.Verdict{} })
		return mux.NewSession(conn, lease.New(time.Hour, driver.Now), &b.budget, slog.New(slog.DiscardHandler), onEnd), nil
	}
	b.mux = mux.New(mux.Config{Open: open, Sessions: 1, Log: slog.New(slog.DiscardHandler)})
	var err error
	b.waits, err = waitsession.New(waitsession.Config{
		Open: open, Call: b.mux.Call, Most: 1, LookEvery: time.Hour, Log: slog.New(slog.DiscardHandler),
	})
	must.Succeed(t, err)
	return b
}

// deaf is told of losses, of which there are none.
type deaf struct{ testing.TB }

func (d deaf) Lost(reason driver.LostReason, err error) {
	d.Errorf("a lock is lost: %v, %v", reason, err)
}

func request(t *testing.T, wait bool, number int64) driver.Request {
	return driver.Request{Wait: wait, LossHandler: deaf{t}, Key: driver.Key{KeyID: driver.KeyID{Number: number}}}
}

// closeBoth closes backends, of which nothing may be left.
func closeBoth(t *testing.T, locks *wiretest.Locks, backends ...*Backend) {
	t.Helper()
	for _, b := range backends {
		b.waits.Close()
		b.mux.Close()
	}
	synctest.Wait()
	if n := locks.Len(); n != 0 {
		t.Errorf("%d keys are held", n)
	}
}

// A wait without a session of its own tries again and again. The end of the context ends it with the context's cause, since
// the server has said that the lock is held.
func TestBackendAWaitWithoutASessionPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := wiretest.NewLocks(t)
		holder, waiter := newScripted(t, locks, 1), newScripted(t, locks, 1)
		held, err := holder.Acquire(t.Context(), request(t, false, 1))
		must.Succeed(t, err)
		if g, err := waiter.Acquire(t.Context(), request(t, false, 1)); g != nil || !errors.Is(err, driver.ErrNotAcquired) { // it takes the session
			t.Fatalf("a try of a held key: %v, %v", g, err)
		}
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, enough)
		defer cancel()
		if g, err := waiter.Acquire(ctx, request(t, true, 1)); g != nil || !errors.Is(err, enough) || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("got %v, %v", g, err)
		}
		must.Succeed(t, holder.Release(t.Context(), held))
		got, err := waiter.Acquire(t.Context(), request(t, true, 1))
		must.Succeed(t, err)
		must.Succeed(t, waiter.Release(t.Context(), got))
		closeBoth(t, locks, holder, waiter)
	})
}

// A session that ends while it proves itself was not opened: no lock is lost. One whose witness does not answer proves itself as
// the first session does.
func TestBackendASessionThatProvesItselfHoldsNothing(t *testing.T) {
	for end, silent := range map[string]time.Duration{"unlock_shared(": 0, "'own'": 0, "never": time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			start := func(judge func(sql string) wiretest.Verdict) (*mux.Session, *wire.Conn) {
				conn, _ := wiretest.Start(wiretest.NewLocks(t), func(st wiretest.Statement) wiretest.Verdict { return judge(st.SQL) })
				return mux.NewSession(conn, lease.New(time.Hour, driver.Now), nil, slog.New(slog.DiscardHandler), func(*mux.Session) {}), conn
			}
			w, _ := start(func(string) wiretest.Verdict { time.Sleep(silent); return wiretest.Verdict{Fatal: true} })
			s, conn := start(func(sql string) wiretest.Verdict {
				time.Sleep(time.Second)
				return wiretest.Verdict{Value: "own", Fatal: strings.Contains(sql, end)}
			})
			err := confront(t.Context(), s, conn, w)
			if ends := silent == 0; errors.Is(err, driver.ErrUnavailable) != ends || errors.Is(err, driver.ErrLost) || (conn.Identity == 0) != ends {
				t.Errorf("it ends at %s: %v", end, err)
			}
			s.End(driver.LostClosed, nil)
			time.Sleep(time.Second + silent) // in which the servers end
		})
	}
}

// foreign is another backend's grant.
type foreign struct{ driver.Grant }

func TestBackendRefusesTheGrantsOfOthers(t *testing.T) {
	b := &Backend{}
	_, fenced := b.Fence(t.Context(), []driver.Grant{foreign{}})
	for call, err := range map[string]error{
		"Release": b.Release(t.Context(), foreign{}), "Check": b.Check(t.Context(), foreign{}), "Fence": fenced,
	} {
		if err == nil {
			t.Errorf("%s of another backend's grant works", call)
		}
	}
}

// A grant that failed must be nil, not a nil pointer within an interface.
func TestBackendAFailedGrantIsNil(t *testing.T) {
	if g, err := asGrant((*mux.Grant)(nil), errFull); g != nil || !errors.Is(err, errFull) {
		t.Errorf("got %v, %v", g, err)
	}
}

// The error of a wait is the context's unless the server may still grant what was asked for.
func TestBackendKnowsWhatIsLeftOpen(t *testing.T) {
	for want, errs := range map[bool][]error{
		true:  {errFull, &driver.UnsettledError{Err: errors.New("no answer")}},
		false: {errors.Join(driver.ErrUnavailable, mux.ErrNoConnection), driver.ErrNotAcquired},
	} {
		for _, err := range errs {
			if leavesOpen(err) != want {
				t.Errorf("%v leaves open: %v, want %v", err, !want, want)
			}
		}
	}
}
