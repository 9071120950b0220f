package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/suites/scheduletest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// brokenRecords lets processes ask for the same runs of jobs, while the connections on which runs are recorded fall
// silent or are terminated.
func brokenRecords(t *testing.T, tally *faults.Tally) {
	db, pool := newServer(t)
	err := migrations.Up(t.Context(), pool)
	if err == nil {
		_, err = pool.Exec(t.Context(), "CREATE TABLE effects (job text, due timestamptz)")
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []func()
	for range scaled(400, len(recordFaults)) {
		all = append(all, func() {
			r := &recordTrial{T: t, tally: tally, pool: pool, name: fmt.Sprintf("records-%d", trialNumber.Add(1))}
			r.run(db)
			tally.Trials.Add(1)
		})
	}
	atOnce(sideBySide, all)
}

// recordTrial is one job that two processes run.
type recordTrial struct {
	*testing.T
	tally *faults.Tally
	pool  *pgxpool.Pool
	name  string
}

// recordProcess is one of them, with a network in which each connection can break separately.
type recordProcess struct {
	name string
	jobs *scheduletest.Jobs

	mu    sync.Mutex
	links []*testenv.Link
}

func (p *recordProcess) dial(ctx context.Context, network, address string) (net.Conn, error) {
	link := testenv.NewLink(0)
	p.mu.Lock()
	p.links = append(p.links, link)
	p.mu.Unlock()
	return link.Dial(ctx, network, address)
}

// cut makes the connections silent that there are, or only the first, which is that for records. Later ones work.
func (p *recordProcess) cut(r *recordTrial, onlyFirst, up, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, link := range p.links {
		if i == 0 || !onlyFirst {
			link.Cut(up, down)
		}
	}
	r.tally.Partitions.Add(1)
}

// terminate ends the session for records.
func (p *recordProcess) terminate(r *recordTrial) {
	var killed int64
	err := r.pool.QueryRow(context.Background(), `SELECT count(CASE WHEN application_name LIKE $1 || ' (%' AND query LIKE '%pglock.tick%'
		THEN pg_terminate_backend(pid) END) FROM pg_stat_activity`, p.name).Scan(&killed)
	if err != nil {
		r.Error(err)
	}
	r.tally.Kills.Add(killed)
}

var recordFaults = []func(*recordTrial, *recordProcess){
	func(r *recordTrial, p *recordProcess) { p.cut(r, true, true, true) },
	func(r *recordTrial, p *recordProcess) { p.cut(r, true, true, false) },
	func(r *recordTrial, p *recordProcess) { p.cut(r, true, false, true) },
	func(r *recordTrial, p *recordProcess) { p.cut(r, false, true, true) },
	func(r *recordTrial, p *recordProcess) { p.cut(r, false, false, true) },
	func(r *recordTrial, p *recordProcess) { p.terminate(r) },
	func(r *recordTrial, p *recordProcess) { p.terminate(r) },
}

// run asks for a few due times, each in every way in which runs are recorded.
func (r *recordTrial) run(db *testenv.DB) {
	var processes []*recordProcess
	for i := range 2 {
		p := &recordProcess{name: fmt.Sprint(r.name, "-", i)}
		config := db.Config(r)
		config.ConnConfig.DialFunc = p.dial
		l, err := pglock.NewWithConfig(config, pglock.WithLease(lease), pglock.WithApplicationName(p.name))
		if err != nil {
			r.Error(err)
			return
		}
		p.jobs = &scheduletest.Jobs{Locker: l}
		defer func() {
			closeSoon(r.T, l)
			for _, link := range p.links {
				link.Close()
			}
		}()
		processes = append(processes, p)
	}
	first := time.Now().UTC().Truncate(time.Hour)
	for i := range 3 {
		due := first.Add(time.Duration(i) * time.Second).Add(-time.Hour)
		for _, how := range []string{"start", "success", "tx"} {
			r.askAll(processes, how, due)
		}
	}
}

// askAll lets all processes ask for a run until it is done, with a fault at some moment.
func (r *recordTrial) askAll(processes []*recordProcess, how string, due time.Time) {
	run := &recordedRun{recordTrial: r, how: how, job: r.name + "-" + how, due: due}
	var all sync.WaitGroup
	for _, p := range processes {
		all.Go(func() { run.ask(p) })
	}
	time.Sleep(rand.N(20 * time.Millisecond))
	recordFaults[rand.IntN(len(recordFaults))](r, processes[rand.IntN(len(processes))])
	all.Wait()
	run.check()
}

// recordedRun is one run, as all processes see it.
type recordedRun struct {
	*recordTrial
	how, job string
	due      time.Time

	mu        sync.Mutex
	runs      int
	succeeded bool // a call has returned nil
	repeated  bool // it began after that
}

// ask asks until the run is done. Each call must return within some leases.
func (r *recordedRun) ask(p *recordProcess) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(rand.N(20 * time.Millisecond)) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		r.tally.Operations.Add(1)
		err := r.call(ctx, p)
		hung := ctx.Err() != nil
		cancel()
		switch {
		case hung:
			violation(r.T, r.tally, "%s, %s: a call did not return", r.job, p.name)
			return
		case err == nil:
			r.mu.Lock()
			r.succeeded = true
			r.mu.Unlock()
			return
		case errors.Is(err, pglock.ErrDone):
			return
		case !errors.Is(err, pglock.ErrUnavailable) && !errors.Is(err, pglock.ErrLost):
			violation(r.T, r.tally, "%s, %s: %v", r.job, p.name, err)
			return
		}
	}
	violation(r.T, r.tally, "%s, %s: the run is not done", r.job, p.name)
}

func (r *recordedRun) call(ctx context.Context, p *recordProcess) error {
	if r.how == "tx" {
		return p.jobs.RunTx(ctx, r.pool, r.job, r.due, func(ctx context.Context, tx pgx.Tx, _ *pglock.Lock) error {
			_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", r.job, r.due)
			return err
		})
	}
	mark := schedule.Start
	if r.how == "success" {
		mark = schedule.Success
	}
	return p.jobs.Run(ctx, r.job, r.due, func(context.Context, *pglock.Lock) error {
		r.mu.Lock()
		r.runs++
		r.repeated = r.repeated || r.succeeded
		r.mu.Unlock()
		time.Sleep(rand.N(10 * time.Millisecond))
		return nil
	}, schedule.MarkOn(mark))
}

// check looks for runs that were repeated or lost.
func (r *recordedRun) check() {
	runs := r.runs
	if r.how == "tx" {
		err := r.pool.QueryRow(context.Background(), "SELECT count(*) FROM effects WHERE job = $1 AND due = $2", r.job, r.due).Scan(&runs)
		if err != nil {
			r.Error(err)
			return
		}
	}
	switch {
	case r.repeated:
		violation(r.T, r.tally, "%s: it ran again after a call had returned its success", r.job)
	case runs > 1 && r.how != "success":
		violation(r.T, r.tally, "%s: it ran %d times", r.job, runs)
	case runs == 0 && r.how != "start":
		violation(r.T, r.tally, "%s: it counts as done and did not run", r.job)
	}
}
