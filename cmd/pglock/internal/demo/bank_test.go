package demo

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/monitor"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// slow answers after the time for which the demonstration watches.
type slow struct{ monitor.DBTX }

func (s slow) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	<-time.After(2 * watchingTime)
	return s.DBTX.SendBatch(ctx, batch)
}

func TestASlowServerGivesASnapshotToo(t *testing.T) {
	db := testenv.Database(t)
	pool := db.Pool(t)
	snapshot, err := busiest(t.Context(), slow{pool})
	if err != nil || snapshot == nil || snapshot.Database != db.Name() {
		t.Errorf("got %+v, %v, want a snapshot of %s", snapshot, err, db.Name())
	}
}
