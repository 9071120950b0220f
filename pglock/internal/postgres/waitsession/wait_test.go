package waitsession

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// The server cancels a wait late and then falls silent. Its caller waits once for both.
func TestWaitOfACallerThatHasLeftEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled, ended := make(chan struct{}), make(chan struct{})
		cancelWait := sync.OnceFunc(func() { close(cancelled) })
		r := newRig(t, 1)
		r.judge = func(st wiretest.Statement) wiretest.Verdict {
			switch {
			case isWait(st):
				<-cancelled
				time.Sleep(cancelWithin - time.Second)
				return wiretest.Verdict{Code: "57014"}
			case strings.Contains(st.SQL, lockdb.UnlockAllSession):
				<-ended
			}
			return wiretest.Verdict{}
		}
		r.onMux = func(_ context.Context, sql string) string {
			if sql != lockdb.CancelWait {
				t.Errorf("a statement on a mux session: %s", sql)
			}
			cancelWait()
			return "t"
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, _, err := r.Wait(ctx, driver.Request{Key: driver.Key{KeyID: driver.KeyID{Space: driver.SpaceBigint, Number: 1}}}, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if late := time.Since(began) - time.Minute; late > cancelWithin {
			t.Errorf("Lock returned %v after the end of its context", late)
		}
		close(ended)
		r.Close()
	})
}

// A wait that was cancelled once leaves its session to others. A second request may come late, and hit another wait.
func TestASessionThatALateCancelMayHitIsNotUsedAgain(t *testing.T) {
	for requests := range 3 {
		synctest.Test(t, func(t *testing.T) {
			r, cancelled := newRig(t, 1), make(chan struct{}, 3)
			r.judge = func(st wiretest.Statement) wiretest.Verdict {
				switch {
				case isWait(st) && requests == 0:
					time.Sleep(time.Minute)
					return wiretest.Verdict{Code: "57014"} // pg_cancel_backend
				case isWait(st):
					for range requests {
						<-cancelled
					}
					return wiretest.Verdict{Code: "57014"}
				}
				return wiretest.Verdict{Value: "t"}
			}
			r.onMux = func(context.Context, string) string { cancelled <- struct{}{}; return "t" }
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(1-requests)*time.Second)
			defer cancel()
			_, _, err := r.Wait(ctx, driver.Request{}, nil)
			if want := []error{driver.ErrNotAcquired, context.DeadlineExceeded}[min(requests, 1)]; !errors.Is(err, want) {
				t.Errorf("%d requests: %v", requests, err)
			}
			giveBack(r.enter())
			if n, want := r.dials.Load(), int32(max(requests, 1)); n != want {
				t.Errorf("%d requests: %d sessions were opened", requests, n)
			}
			r.Close()
		})
	}
}
