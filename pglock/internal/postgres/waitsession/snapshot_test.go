package waitsession

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/lease"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// A session that began to wait between the two things that the server reads seems to wait with a snapshot, once.
func TestASnapshotThatIsSeenOnceDoesNotSliceWaits(t *testing.T) {
	for answers, sliced := range map[string]bool{"f": false, "tf": false, "t-": false, "tt": true} {
		synctest.Test(t, func(t *testing.T) {
			conn, server := wiretest.Start(wiretest.NewLocks(t), func(wiretest.Statement) wiretest.Verdict { return wiretest.Verdict{} })
			var budget mux.Budget
			m := mux.NewSession(conn, lease.New(time.Hour, driver.Now), &budget, slog.New(slog.DiscardHandler), func(*mux.Session) {})
			asked := 0
			p := New(Config{Log: slog.New(slog.DiscardHandler),
				Call: func(context.Context, string, ...string) (value string, some bool, err error) {
					asked++
					return answers[asked-1 : asked], answers[asked-1] != '-', nil
				}})
			if known := p.inspect(&session{Session: m}); known != (answers != "t-") || p.sliced.Load() != sliced || asked != len(answers) {
				t.Errorf("%s: known %t, sliced %t, asked %d times", answers, known, p.sliced.Load(), asked)
			}
			m.End(driver.LostClosed, nil)
			<-server.Done()
		})
	}
}
