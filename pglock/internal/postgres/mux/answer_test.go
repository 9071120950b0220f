package mux

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// An answer that cannot be understood ends the session, which answers all callers, even those that have left. An answer
// without a row comes from a proxy that has sent the statement to another server process.
func TestSessionAnswersTheCallersOfABadAnswer(t *testing.T) {
	for name, bad := range map[string]pgproto3.BackendMessage{
		"null": &pgproto3.DataRow{Values: [][]byte{nil}}, "no row": &pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")},
	} {
		t.Run(name, func(t *testing.T) {
			overEach(t, func(t *testing.T, start transport) {
				var r *rig
				r = newRigOver(t, start, func(st wiretest.Statement) wiretest.Verdict {
					if len(st.Keys) > 0 {
						time.Sleep(3 * time.Second)
						r.server.Say(bad, &pgproto3.ReadyForQuery{TxStatus: 'I'})
					}
					return wiretest.Verdict{}
				})
				ctx, cancel := soon()
				defer cancel()
				var all sync.WaitGroup
				all.Go(func() {
					open, ok := errors.AsType[*driver.UnsettledError](r.session.Try(ctx, grantOf(new(owner), 1)))
					if !ok {
						t.Error("the caller whose context ended did not leave")
						return
					}
					<-open.Done
				})
				synctest.Wait()
				all.Go(func() {
					if err := r.session.Try(context.Background(), grantOf(new(owner), 2)); !HasEnded(err) {
						t.Errorf("Try returned %v", err)
					}
				})
				all.Wait()
				r.close()
			})
		})
	}
}
