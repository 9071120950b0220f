package schedule_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// runOn is a variable with a connection string. If it is set, the test binary is a process that runs jobs on that
// database, with a clock that is off by clockOff, for as many ticks from firstTick on as ticksToRun says.
const (
	runOn      = "PGLOCK_TEST_SCHEDULE_RUN"
	clockOff   = "PGLOCK_TEST_SCHEDULE_CLOCK"
	firstTick  = "PGLOCK_TEST_SCHEDULE_FIRST"
	ticksToRun = "PGLOCK_TEST_SCHEDULE_TICKS"
)

const tickEvery = 10 * time.Millisecond

// tick returns when the i-th run is due.
func tick(first time.Time, i int) time.Time { return first.Add(time.Duration(i) * tickEvery) }

// Ten processes with clocks up to 9 s apart run three jobs for 250 ticks (1,000 with PGLOCK_TEST_TRIALS=4). Some of
// them are killed and started again. The effects are counted in the database.
func TestLongScheduleTenProcessesWithSkewedClocksAndKills(t *testing.T) {
	_, pool := installed(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE effects (job text, due timestamptz)")
	must.Succeed(t, err)
	first := time.Now().UTC().Add(time.Second).Truncate(time.Microsecond)
	const processes, kills = 10, 12
	ticks := testenv.Trials(t, 250)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	killsLeft := kills
	for i := range processes {
		off := time.Duration(i)*time.Second - time.Second*(processes-1)/2 // from -4.5 to 4.5 s
		wg.Go(func() {
			for {
				killed, err := runProcess(ctx, pool.Config().ConnString(), off, first, ticks, func() bool {
					mu.Lock()
					defer mu.Unlock()
					killsLeft--
					return killsLeft >= 0
				})
				if err != nil {
					t.Errorf("process %d: %v", i, err)
				}
				if !killed {
					return
				}
			}
		})
	}
	wg.Wait()
	if killsLeft > 0 {
		t.Errorf("only %d of %d kills", kills-killsLeft, kills)
	}
	for _, job := range []string{"start", "tx"} {
		n := one[int](t, pool, `SELECT count(*)::int FROM (
			SELECT due FROM effects WHERE job = $1 GROUP BY due HAVING count(*) > 1) AS v`, job)
		if n > 0 {
			t.Errorf("%s: %d ticks happened more than once", job, n)
		}
	}
	distinct := func(job string) int {
		return one[int](t, pool, "SELECT count(DISTINCT due)::int FROM effects WHERE job = $1", job)
	}
	for _, job := range []string{"success", "tx"} {
		if n := distinct(job); n != ticks {
			t.Errorf("%s: %d of %d ticks happened", job, n, ticks)
		}
	}
	if n := distinct("start"); n < ticks-kills || n > ticks {
		t.Errorf("start: %d of %d ticks happened, with %d kills", n, ticks, kills)
	}
	if early := one[int](t, pool, "SELECT count(*)::int FROM pglock.runs WHERE started < due"); early > 0 {
		t.Errorf("%d runs began before they were due, by the clock of the server", early)
	}
}

// runProcess runs a process to its end, or kills it if mayKill says so.
func runProcess(
	ctx context.Context, db string, off time.Duration, first time.Time, ticks int, mayKill func() bool,
) (killed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), runOn+"="+db, clockOff+"="+off.String(), firstTick+"="+first.Format(time.RFC3339Nano),
		ticksToRun+"="+strconv.Itoa(ticks))
	var output bytes.Buffer
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-time.After(time.Until(first) + rand.N(time.Duration(ticks)*tickEvery)):
		if killed = mayKill(); killed {
			err = cmd.Process.Kill()
			<-ended
			return true, err
		}
		err = <-ended
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, &output)
	}
	return false, err
}

// runJobs is the process.
func runJobs(connString string) error {
	ctx := context.Background()
	off, err := time.ParseDuration(os.Getenv(clockOff))
	if err != nil {
		return err
	}
	first, err := time.Parse(time.RFC3339Nano, os.Getenv(firstTick))
	if err != nil {
		return err
	}
	ticks, err := strconv.Atoi(os.Getenv(ticksToRun))
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, connString)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := pglock.New(pool, pglock.WithLease(2*time.Second))
	if err != nil {
		return err
	}
	jobs := newJobs(l)
	errs := make(chan error, 3)
	go func() {
		errs <- everyTick(first, ticks, off, func(due time.Time) error {
			return jobs.Run(ctx, "start", due, func(ctx context.Context, _ *pglock.Lock) error {
				_, err := pool.Exec(ctx, "INSERT INTO effects VALUES ('start', $1)", due)
				return err
			})
		})
	}()
	go func() {
		errs <- everyTick(first, ticks, off, func(due time.Time) error {
			return jobs.Run(ctx, "success", due, func(ctx context.Context, _ *pglock.Lock) error {
				_, err := pool.Exec(ctx, "INSERT INTO effects VALUES ('success', $1)", due)
				return err
			}, schedule.WithMark(schedule.MarkSuccess))
		})
	}()
	go func() {
		errs <- everyTick(first, ticks, off, func(due time.Time) error {
			return jobs.RunTx(ctx, pool, "tx", due, func(ctx context.Context, tx pgx.Tx, _ *pglock.Lock) error {
				_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('tx', $1)", due)
				return err
			})
		})
	}()
	return errors.Join(<-errs, <-errs, <-errs, l.Close(ctx))
}

// everyTick calls run for every tick when the process's clock has reached it. A process that was restarted begins with
// the first tick, since it does not know which were done.
func everyTick(first time.Time, ticks int, off time.Duration, run func(due time.Time) error) error {
	for i := range ticks {
		due := tick(first, i)
		time.Sleep(time.Until(due.Add(-off)))
		for {
			err := run(due)
			if err == nil || errors.Is(err, pglock.ErrDone) {
				break
			}
			if !errors.Is(err, pglock.ErrUnavailable) && !errors.Is(err, pglock.ErrLost) {
				return err
			}
		}
	}
	return nil
}
