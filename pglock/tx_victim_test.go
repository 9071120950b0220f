package pglock

import (
	"context"
	"errors"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// The call that a deadlock has chosen may not have sent its statement yet, on a busy machine. The first request finds nothing to
// cancel then.
func TestTxAVictimWhoseStatementComesLateIsCancelled(t *testing.T) {
	t.Parallel()
	conn := testenv.Database(t).Connect(t)
	tx, err := conn.Begin(t.Context())
	must.Succeed(t, err)
	why := errors.New("deadlock")
	v := &txVictim{conn: tx.Conn(), cancel: func(error) { t.Error("the connection is given up") }}
	v.giveUp(why)
	_, err = tx.Exec(t.Context(), "SELECT pg_sleep(600)")
	if got := v.result(err); got != why {
		t.Errorf("the wait ends with %v", got)
	}
	must.Succeed(t, tx.Rollback(context.Background()))
}
