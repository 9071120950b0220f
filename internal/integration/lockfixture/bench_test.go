package lockfixture_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxdb"
	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxlocks"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// BenchmarkQueryWithItsLock runs a generated query and a hand-written batch alternately, and compares their medians.
func BenchmarkQueryWithItsLock(b *testing.B) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec} {
		b.Run(mode.String(), func(b *testing.B) {
			conn, _ := connect(b, database(b).ConnString(), mode)
			tx, ctx := begin(b, conn), b.Context()
			q := pgxdb.New(pgxlocks.Tx(tx))
			generated := func() { _, err := q.GetInvoice(ctx, 1); must.Succeed(b, err) }
			byHand := func() {
				batch := &pgx.Batch{}
				//pglock:allow the same lock by hand, to compare
				pglock.QueueLockTx(batch, pglock.NewKey("invoice:1"), pglock.Shared())
				var i pgxdb.Invoice
				batch.Queue(pgxdb.GetInvoice, int64(1)).QueryRow(func(row pgx.Row) error {
					return row.Scan(&i.ID, &i.Tenant, &i.Paid, &i.Note)
				})
				must.Succeed(b, tx.SendBatch(ctx, batch).Close())
			}
			var ours, theirs []time.Duration
			for b.Loop() {
				ours, theirs = append(ours, timed(generated)), append(theirs, timed(byHand))
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			a, h := ours[len(ours)/2], theirs[len(theirs)/2]
			b.ReportMetric(float64(a.Microseconds()), "µs/generated")
			b.ReportMetric(float64(h.Microseconds()), "µs/by-hand")
			b.ReportMetric(float64(a)/float64(h), "times-by-hand")
			b.ReportMetric(0, "ns/op") // it would be the time of both together
		})
	}
}

func timed(call func()) time.Duration {
	start := time.Now()
	call()
	return time.Since(start)
}
