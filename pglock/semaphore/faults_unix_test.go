//go:build unix

package semaphore_test

import (
	"context"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

const (
	processVariable = "PGLOCK_SEMAPHORE_TEST_DATABASE"
	faultPermits    = 3
	faultLease      = time.Second
)

// runProcess is a process of the fault test: eight goroutines that take permits and record them in the database.
func runProcess(database string) {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		log.Fatal(err)
	}
	// Successors of a frozen process wait for its guarded transaction to end.
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "500"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	l, err := pglock.NewWithConfig(config, pglock.WithLease(faultLease))
	if err != nil {
		log.Fatal(err)
	}
	sem, err := semaphore.New(l, pglock.NewKey("faults"), faultPermits)
	if err != nil {
		log.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				weight := 1 + rand.IntN(2)
				p, err := sem.AcquireN(ctx, weight)
				if err != nil {
					continue // the server has ended a session
				}
				_ = count(p, pool) // it fails if the permit was lost
				_ = p.Release(ctx)
			}
		})
	}
	wg.Wait()
}

// count records in the database that the permit is held. The row is written by a transaction that the permit guards and
// that is open for a moment.
func count(p *semaphore.Permit, pool *pgxpool.Pool) error {
	ctx := p.Context(context.Background())
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := p.GuardTx(ctx, tx); err != nil {
			return err
		}
		return hold(ctx, tx, p.Weight())
	})
}

// TestLongSemaphoreHoldsUnderFaults kills and freezes processes that take permits, and terminates their sessions. It counts
// in the database, by their guarded transactions, how many permits were held at a time: there must never be too many.
// Afterwards all permits must be free.
func TestLongSemaphoreHoldsUnderFaults(t *testing.T) {
	db := testenv.Database(t)
	conn := db.Connect(t)
	makeHeld(t, conn)
	var processes []*exec.Cmd
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), processVariable+"="+db.ConnString())
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	stop := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(func() {
		for _, cmd := range processes {
			stop(cmd)
		}
	})
	for range 3 {
		processes = append(processes, start())
	}
	progress := func() {
		var before int
		read := func() (n int) {
			if err := conn.QueryRow(t.Context(), "select count(*) from held").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before = read()
		testenv.WaitUntil(t, "permits are taken again", func() bool { return read() >= before+5 })
	}
	progress()
	freesFrozen := db.FreesFrozen(t)
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		i := rand.IntN(len(processes))
		stop(processes[i])
		processes[i] = start()
		progress()
		i = rand.IntN(len(processes))
		for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			if err := processes[i].Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if signal == syscall.SIGSTOP {
				time.Sleep(faultLease + faultLease/2) // longer than the lease: that is the fault
			}
			if signal == syscall.SIGCONT || freesFrozen {
				progress()
			}
		}
		if _, err := conn.Exec(t.Context(), "select pg_terminate_backend(pid) from (select pid from pg_locks where "+
			"locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database()) "+
			"order by random() limit 1) l"); err != nil {
			t.Fatal(err)
		}
		progress()
	}
	for _, cmd := range processes {
		stop(cmd)
	}
	wantAtMost(t, conn, faultPermits)
	sem, err := semaphore.New(openLocker(t, db), pglock.NewKey("faults"), faultPermits)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sem.AcquireN(t.Context(), faultPermits, pglock.MaxWait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
