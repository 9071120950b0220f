package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/suites/scheduletest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// links is a network in which each connection can break separately.
type links struct {
	mu  sync.Mutex
	all []*testenv.Link
}

func (n *links) dial(ctx context.Context, network, address string) (net.Conn, error) {
	link := testenv.NewLink(0)
	n.mu.Lock()
	n.all = append(n.all, link)
	n.mu.Unlock()
	return link.Dial(ctx, network, address)
}

// first returns the connection for records, which a new Locker's first run dials first.
func (n *links) first() *testenv.Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[0]
}

// freeze makes all connections silent that there are. Later ones work.
func (n *links) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, link := range n.all {
		link.Cut(true, true)
	}
}

// onLinks returns Jobs on a network of their own.
func onLinks(t *testing.T, db *testenv.DB, opts ...schedule.Option) (*scheduletest.Jobs, *links) {
	t.Helper()
	n := &links{}
	t.Cleanup(func() {
		for _, link := range n.all {
			link.Close()
		}
	})
	config := db.Config(t)
	config.ConnConfig.DialFunc = n.dial
	l, err := pglock.NewWithConfig(config, pglock.WithLease(2*time.Second))
	return newJobs(must.Closing(t, l, err), opts...), n
}

// A failover by silence: connections to the old server stay open, but nothing arrives.
func TestScheduleRunsOnANewConnectionWhenAllOldOnesHaveFrozen(t *testing.T) {
	db, pool := installed(t)
	jobs, network := onLinks(t, db)
	must.Succeed(t, jobs.Run(t.Context(), "job", day, nothing))
	network.freeze()
	const others = 20
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range others {
		all.Go(func() {
			if err := jobs.Run(ctx, fmt.Sprint("job", i), day, nothing); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := must.One[int](t, pool, "SELECT count(*)::int FROM pglock.runs WHERE finished IS NOT NULL"); n != 1+others {
		t.Errorf("%d runs were recorded", n)
	}
}

// The connection for records fails at each step, and the others work.
func TestScheduleStepsAreRecordedAlthoughTheConnectionFails(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	freeze := func(n *links) { n.first().Cut(true, true) }
	terminate := func(*links) {
		if n := must.One[int](t, pool, "SELECT count(pg_terminate_backend(pid))::int"+recording); n != 1 {
			t.Errorf("%d connections were terminated", n)
		}
	}
	for what, fail := range map[string]func(*links){"freezes": freeze, "is terminated": terminate} {
		for _, on := range []schedule.Mark{schedule.MarkStart, schedule.MarkSuccess} {
			t.Run(fmt.Sprint("it ", what, ", mark ", on), func(t *testing.T) {
				jobs, network := onLinks(t, db, schedule.WithMark(on))
				runs := 0
				job := func(context.Context, *pglock.Lock) error {
					runs++
					fail(network)
					return nil
				}
				must.Succeed(t, jobs.Run(t.Context(), t.Name(), day, job))
				wantIs(t, jobs.Run(t.Context(), t.Name(), day, job), pglock.ErrDone)
				if done := must.One[bool](t, pool, "SELECT finished IS NOT NULL FROM pglock.runs WHERE job = $1", t.Name()); !done || runs != 1 {
					t.Errorf("finished: %t, after %d runs", done, runs)
				}
			})
		}
	}
}

// inStart runs a job, and calls fail after the first look and before the job's lock is had.
func inStart(t *testing.T, pool *pgxpool.Pool, jobs *scheduletest.Jobs, fail func()) (runs int, err error) {
	t.Helper()
	before, err := open(t, pool).Lock(t.Context(), pglock.NewKey(t.Name()))
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- jobs.Run(ctx, t.Name(), day, func(context.Context, *pglock.Lock) error {
			runs++
			return nil
		})
	}()
	testenv.WaitUntil(t, "the run waits for the lock", func() bool {
		return must.One[int](t, pool, `SELECT count(*)::int FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted`) > 0
	})
	fail()
	must.Succeed(t, before.Unlock(t.Context()))
	err = <-ended
	return runs, err
}

func TestScheduleAStartThatDidNotArriveIsRecordedOnANewConnection(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	jobs, network := onLinks(t, db)
	_, err := inStart(t, pool, jobs, func() { network.first().Cut(true, true) })
	must.Succeed(t, err)
	if n := must.One[int](t, pool, "SELECT attempts FROM pglock.runs WHERE finished IS NOT NULL"); n != 1 {
		t.Errorf("%d attempts were recorded", n)
	}
}

// It is not known whether the record is this run's, so the run must not begin.
func TestScheduleAStartWhoseAnswerWasLostDoesNotRun(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	jobs, network := onLinks(t, db)
	runs, err := inStart(t, pool, jobs, func() { network.first().Cut(false, true) })
	wantIs(t, err, pglock.ErrUnavailable)
	if errors.Is(err, pglock.ErrDone) || errors.Is(err, context.DeadlineExceeded) || runs > 0 {
		t.Errorf("%d runs, %v", runs, err)
	}
	wantIs(t, jobs.Run(t.Context(), t.Name(), day, nothing), pglock.ErrDone)
}

// What the role or the database is configured to do, such as to end the connection, fails no record. pgx reads dates in one
// form only.
func TestScheduleRecordsDoNotDependOnTheRole(t *testing.T) {
	t.Parallel()
	db, owner := installed(t)
	pool, err := pgxpool.New(t.Context(), db.Role(t, "careless"))
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	role := pool.Config().ConnConfig.User
	must.Succeed(t, execute(t, owner, migrations.LockerGrants(role)))
	settings := map[string]string{"synchronous_commit": "off", "client_min_messages": "error", "lock_timeout": "1ms",
		"idle_in_transaction_session_timeout": "1ms", "datestyle": "SQL, DMY", "default_transaction_read_only": "on",
		"default_transaction_isolation": "serializable", "row_security": "off"}
	for _, setting := range []string{"idle_session_timeout", "transaction_timeout"} {
		if must.One[bool](t, owner, "SELECT current_setting($1, true) IS NOT NULL", setting) { // some came with later versions
			settings[setting] = "1s" // enough to set up a session on a busy machine
		}
	}
	for name, value := range settings {
		must.Succeed(t, execute(t, owner, "ALTER ROLE "+pgx.Identifier{role}.Sanitize()+" SET "+name+" = '"+value+"'"))
	}
	jobs := newJobs(open(t, pool))
	must.Succeed(t, jobs.Run(t.Context(), "job", day, func(context.Context, *pglock.Lock) error {
		time.Sleep(1200 * time.Millisecond) // longer than the timeouts
		return nil
	}))
	wantIs(t, jobs.Run(t.Context(), "job", day, nothing), pglock.ErrDone)
	if !must.One[bool](t, owner, "SELECT finished IS NOT NULL FROM pglock.runs") {
		t.Error("the end of the run was not recorded")
	}
}

func execute(t *testing.T, pool *pgxpool.Pool, sql string) error {
	_, err := pool.Exec(t.Context(), sql)
	return err
}

// PostgreSQL keeps commits of a session with synchronous_commit = off in memory for a while.
func TestScheduleARunIsNotRepeatedAfterTheServerCrashed(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s"})
	db := testenv.On(t, server)
	pool := db.Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	jobs := newJobs(open(t, pool))
	_ = jobs.Run(t.Context(), "job", day, func(context.Context, *pglock.Lock) error {
		return server.Restart(context.WithoutCancel(t.Context()), pgserver.Immediate)
	})
	wantIs(t, newJobs(open(t, pool)).Run(t.Context(), "job", day, nothing), pglock.ErrDone)
}

// The commit waits for a standby that does not exist. When that wait is cancelled, PostgreSQL commits and warns.
func TestScheduleARecordThatMightNotSurviveAFailoverIsAnError(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	pool := db.Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	jobs := newJobs(open(t, pool))
	withdraw := testenv.RequireStandby(t, db)
	runs, ended := 0, make(chan error, 1)
	go func() {
		ended <- jobs.Run(t.Context(), "job", day, func(context.Context, *pglock.Lock) error {
			runs++
			return nil
		})
	}()
	testenv.WaitUntil(t, "the wait is cancelled", func() bool {
		return must.One[int](t, pool, `SELECT count(CASE wait_event WHEN 'SyncRep' THEN pg_cancel_backend(pid) END)::int
			FROM pg_stat_activity`) > 0
	})
	err := <-ended
	withdraw()
	if !errors.Is(err, pglock.ErrUnavailable) || runs > 0 {
		t.Errorf("%d runs, %v", runs, err)
	}
	wantIs(t, jobs.Run(t.Context(), "job", day, nothing), pglock.ErrDone)
}

// A run may have to wait for the job's lock for long, so the wait itself has no bound. But it must not outlast its session.
func TestScheduleARunThatWaitsForTheLockOnAFrozenConnectionGetsIt(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	jobs, network := onLinks(t, db)
	runs, err := inStart(t, pool, jobs, network.freeze)
	if must.Succeed(t, err); runs != 1 {
		t.Errorf("%d runs", runs)
	}
}
