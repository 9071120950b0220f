package waitsession

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
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

// The server cancels a wait late and then falls silent. Its caller waits once for both.
func TestWaitOfACallerThatHasLeftEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled, ended := make(chan struct{}), make(chan struct{})
		cancelWait := sync.OnceFunc(func() { close(cancelled) })
		open := func(_ context.Context, onEnd func(*mux.Session)) (*mux.Session, error) {
			conn, _ := wiretest.Start(wiretest.NewLocks(t), func(st wiretest.Statement) wiretest.Verdict {
				switch {
				case strings.Contains(st.SQL, lockdb.LockSession[:20]):
					<-cancelled
					time.Sleep(cancelWithin - time.Second)
					return wiretest.Verdict{Code: "57014"}
				case strings.Contains(st.SQL, lockdb.UnlockAllSession):
					<-ended
				}
				return wiretest.Verdict{}
			})
			conn.GuardPID = int32(conn.PID)
			return mux.NewSession(conn, lease.New(time.Hour, driver.Now), new(mux.Budget), slog.New(slog.DiscardHandler), onEnd), nil
		}
		pool, err := New(Config{
			Open: open, Most: 1, PrepareWithin: time.Minute, LookEvery: time.Hour, Log: slog.New(slog.DiscardHandler),
			Call: func(_ context.Context, sql string, _ ...string) (string, bool, error) {
				if sql != lockdb.CancelWait {
					t.Errorf("a statement on a mux session: %s", sql)
				}
				cancelWait()
				return "t", true, nil
			},
		})
		must.Succeed(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, _, err = pool.Wait(ctx, driver.Request{Key: driver.Key{KeyID: driver.KeyID{Space: driver.SpaceBigint, Number: 1}}}, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if late := time.Since(began) - time.Minute; late > cancelWithin {
			t.Errorf("Lock returned %v after the end of its context", late)
		}
		close(ended)
		pool.Close()
	})
}
