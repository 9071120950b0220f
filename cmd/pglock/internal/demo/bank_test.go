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

// slowServer answers after the demonstration has stopped watching.
type slowServer struct{ monitor.DBTX }

func (s slowServer) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	<-time.After(2 * watchingTime)
	return s.DBTX.SendBatch(ctx, batch)
}

func TestASlowServerGivesASnapshotToo(t *testing.T) {
	db := testenv.Database(t)
	pool := db.Pool(t)
	snapshot, err := busiest(t.Context(), slowServer{pool})
	if err != nil || snapshot == nil || snapshot.Database != db.Name() {
		t.Errorf("got %+v, %v, want a snapshot of %s", snapshot, err, db.Name())
	}
}
