package monitor

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

type limits struct{ Statement, Lock, Dates, Costs string }

const selectLimits = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), " +
	"current_setting('datestyle'), current_setting('jit') || ' ' || current_setting('max_parallel_workers_per_gather')"

func TestSnapshotTheLimitsHoldForTheBatchAndEndWithIt(t *testing.T) {
	db := testenv.Database(t)
	cases := []struct {
		name, setUp  string
		before, want limits
	}{
		{"alone", "SET statement_timeout = 0", limits{"0", "0", "ISO, MDY", "on 2"}, limits{"2s", "500ms", "ISO, MDY", "off 0"}},
		{"wider limits", "SET statement_timeout = '1d'; SET lock_timeout = '10min'; SET datestyle = 'German'",
			limits{"1d", "10min", "German, DMY", "on 2"}, limits{"2s", "500ms", "ISO, DMY", "off 0"}},
		{"tighter limits", "SET statement_timeout = '1999ms'; SET lock_timeout = 1",
			limits{"1999ms", "1ms", "ISO, MDY", "on 2"}, limits{"1999ms", "1ms", "ISO, MDY", "off 0"}},
	}
	for _, c := range cases {
		for mode := pgx.QueryExecModeCacheStatement; mode <= pgx.QueryExecModeSimpleProtocol; mode++ {
			t.Run(c.name+" "+mode.String(), func(t *testing.T) {
				config := db.Config(t).ConnConfig
				config.DefaultQueryExecMode = mode
				config.RuntimeParams["jit"] = "on" // the default until version 18
				config.RuntimeParams["max_parallel_workers_per_gather"] = "2"
				conn, err := pgx.ConnectConfig(t.Context(), config)
				must.Succeed(t, err)
				defer func() { must.Succeed(t, conn.Close(context.Background())) }()
				_, err = conn.Exec(t.Context(), c.setUp, pgx.QueryExecModeSimpleProtocol)
				must.Succeed(t, err)

				requireLimits(t, "before", readLimits(t, conn), c.before)
				var inside limits
				must.Succeed(t, reader{conn}.send(t.Context(), func(batch *pgx.Batch) {
					batch.Queue(selectLimits).Query(readOne(&inside))
				}))
				requireLimits(t, "inside", inside, c.want)
				requireLimits(t, "after", readLimits(t, conn), c.before)
			})
		}
	}
}

func readLimits(t *testing.T, conn *pgx.Conn) (l limits) {
	t.Helper()
	rows, err := conn.Query(t.Context(), selectLimits)
	must.Succeed(t, err)
	must.Succeed(t, readOne(&l)(rows))
	return l
}

func requireLimits(t *testing.T, when string, got, want limits) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", when, got, want)
	}
}
