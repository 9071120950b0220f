package doctor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/doctor"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

func TestAnOldSnapshotIsNamedWhereLocksInRowsAreInUse(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	pool := db.Pool(t)
	old := db.Connect(t)
	_, err := old.Exec(t.Context(), "SET application_name = 'the report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	must.Succeed(t, err)
	examine := func(age time.Duration) *doctor.Report {
		other, err := pgxpool.New(t.Context(), db.ConnString())
		must.Succeed(t, err)
		defer other.Close()
		report, err := doctor.Examine(t.Context(), other, doctor.Options{LongWait: time.Hour, OldSnapshot: age})
		must.Succeed(t, err)
		return report
	}
	want(t, examine(time.Nanosecond), "old-snapshots", doctor.OK)

	l, err := rowlock.New(pool)
	must.Succeed(t, err)
	held, err := l.Lock(t.Context(), pglock.NewKey("invoice:42"))
	must.Succeed(t, err)
	must.Succeed(t, held.Unlock(t.Context()))
	must.Succeed(t, l.Close(t.Context()))
	pid := fmt.Sprint(old.PgConn().PID())
	testenv.WaitUntil(t, "the server has counted the row versions", func() bool {
		return findings(examine(time.Nanosecond), "old-snapshots")[0].Level == doctor.Warning
	})
	want(t, examine(time.Nanosecond), "old-snapshots", doctor.Warning, pid, "the report", "pglock terminate "+pid+"@2")
	want(t, examine(0), "old-snapshots", doctor.OK, "10m0s")
}
