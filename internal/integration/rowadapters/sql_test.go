package rowadapters

import (
	"errors"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
)

// The guard is refused, and a transaction that goes on without it does not commit.
func TestRowsDoNotGuardTransactionsOfDatabaseSQL(t *testing.T) {
	p := newPlace(t)
	held, err := p.locker(t).Lock(t.Context(), key)
	must.Succeed(t, err)
	tx, err := p.open(t).BeginTx(t.Context(), nil)
	must.Succeed(t, err)
	if err := sqltx.GuardTx(t.Context(), held, tx); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("the error is %v", err)
	}
	if err := tx.Commit(); err == nil {
		t.Error("a transaction that is not guarded was committed")
	}
	must.Succeed(t, held.Unlock(t.Context()))
}
