package mux

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// A try that pg_cancel_backend has cancelled is repeated once.
func TestSessionRepeatsACancelledTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cancels atomic.Int32
		r := newRig(t, func(st wiretest.Statement) wiretest.Verdict {
			if !st.Asks && st.SQL == "" && !st.Releases(0) && cancels.Add(-1) >= 0 {
				return wiretest.Verdict{Code: "57014"}
			}
			return wiretest.Verdict{}
		})
		cancels.Store(1)
		r.must(r.session.Try(t.Context(), grantOf(new(owner), 1)))
		cancels.Store(2)
		if err := r.session.Try(t.Context(), grantOf(new(owner), 2)); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("cancelled twice: %v", err)
		}
		r.close()
	})
}

// A session that waits holds nothing, so its lease may expire. With the grant a new lease begins.
func TestSessionCarriesWhatItHasWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := make(chan struct{})
		var off atomic.Bool
		r := newRig(t, func(st wiretest.Statement) wiretest.Verdict {
			switch {
			case off.Load():
				<-silent
			case st.SQL == "select 'waits'":
				time.Sleep(3 * testLease)
			}
			return wiretest.Verdict{}
		})
		o := new(owner)
		g := grantOf(o, 1)
		r.must(r.session.Carry(t.Context(), g, func() {}, func() error {
			_, _, err := r.session.Call(t.Context(), "select 'waits'")
			return err
		}))
		if left := g.Deadline().Sub(driver.Now()); left < testLease/2 {
			t.Errorf("the lease of the grant ends in %v", left)
		}
		off.Store(true)
		time.Sleep(2 * testLease)
		if got := o.losses(); !slices.Equal(got, []driver.LostReason{driver.LostLease}) {
			t.Errorf("the owner was notified of %v", got)
		}
		close(silent)
		r.close()
	})
}

// A lock that was waited for must be confirmed, but the server has stopped reading: the write blocks for at most the
// lease, and for a second if nothing waits for the lock any more.
func TestSessionThatCannotConfirmEnds(t *testing.T) {
	for name, c := range map[string]struct {
		ends bool
		want time.Duration
	}{"its caller waits": {false, testLease}, "its context ends": {true, answerPatience}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				frozen := make(chan struct{})
				r := newRig(t, func(st wiretest.Statement) wiretest.Verdict {
					if st.SQL == "select 'frozen'" {
						<-frozen
					}
					time.Sleep(time.Millisecond)
					return wiretest.Verdict{}
				})
				r.must(r.session.Try(t.Context(), grantOf(new(owner), 1))) // answers slowly, so several statements may be on their way
				caller, leave := context.WithCancel(t.Context())
				defer leave()
				var granted time.Time
				err := r.session.Carry(caller, grantOf(new(owner), 2), func() {}, func() error {
					ctx, cancel := soon()
					defer cancel()
					_, _, _ = r.session.Call(ctx, "select 'frozen'") // and then it does not read either
					time.Sleep(testLease)
					granted = time.Now()
					if c.ends {
						leave()
					}
					return nil
				})
				if took := time.Since(granted); !HasEnded(err) || took != c.want {
					t.Errorf("after %v: %v", took, err)
				}
				close(frozen)
				r.close()
			})
		})
	}
}
