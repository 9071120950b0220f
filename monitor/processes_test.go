package monitor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// workerVariable turns the test binary into a program that holds one lock and then waits for another.
const workerVariable = "PGLOCK_TEST_WORKER_DATABASE_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(workerVariable); url != "" {
		if err := work(url, pglock.NewKey(os.Args[1]), pglock.NewKey(os.Args[2])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testenv.MainAlone(m)
}

// work locks the first key and reports it, waits for the second after it has read a line, and gives up at the end of its
// input.
func work(url string, first, second pglock.Key) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	locker, err := pglock.New(pool)
	if err != nil {
		return err
	}
	held, err := locker.Lock(ctx, first)
	if err != nil {
		return err
	}
	fmt.Println("held")
	lines := bufio.NewReader(os.Stdin)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	go func() {
		_, _ = lines.ReadString('\n') // the end
		cancel()
	}()
	wanted, err := locker.Lock(ctx, second)
	switch {
	case err == nil: // the other program has given up first
		err = wanted.Unlock(context.Background())
	case ctx.Err() != nil:
		err = nil
	}
	return errors.Join(err, held.Unlock(context.Background()), locker.Close(context.Background()))
}

// worker is such a program.
type worker struct{ stdin io.WriteCloser }

func startWorker(t *testing.T, db *testenv.DB, first, second string) worker {
	t.Helper()
	self, err := os.Executable()
	must.Succeed(t, err)
	cmd := exec.Command(self, first, second)
	cmd.Env = append(os.Environ(), workerVariable+"="+db.ConnString())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must.Succeed(t, err)
	stdout, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("the worker says %q (%v)", line, err)
	}
	return worker{stdin}
}

func (w worker) proceed(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(w.stdin, "\n")
	must.Succeed(t, err)
}

// Each of two programs with a Locker holds its lock on one session and waits on another.
func TestProcessADeadlockOfTwoProgramsIsShown(t *testing.T) {
	db := testenv.Database(t)
	one := startWorker(t, db, "left", "right")
	other := startWorker(t, db, "right", "left")
	one.proceed(t)
	db.WaitForWaiters(t, 1)
	if s := take(t, db.Pool(t)); len(s.Cycles) > 0 {
		t.Errorf("there is a cycle already: %+v", s.Cycles)
	}
	other.proceed(t)
	db.WaitForWaiters(t, 2)

	s, err := monitor.Take(t.Context(), db.Pool(t))
	must.Succeed(t, err)
	requireServerState(t, db, s)
	cycle := requireOneCycle(t, s)
	if cycle.Certain || len(cycle.Steps) != 2 || cycle.Steps[0].Process == "" || cycle.Steps[1].Process == "" ||
		cycle.Steps[0].Process == cycle.Steps[1].Process {
		t.Errorf("the cycle is %+v", cycle)
	}
	requireEqual(t, "keys", []string{cycle.Steps[0].Key, cycle.Steps[1].Key}, []string{rawKey("left"), rawKey("right")})
	for _, step := range cycle.Steps {
		key, err := pglock.ParseKey(step.Key)
		must.Succeed(t, err)
		if lock := find(t, s, key); lock.Holders[0].Process == step.Process ||
			lock.Waiters[0].PID != step.PID {
			t.Errorf("%s is held by %+v and waited for by %+v; the step is %+v", step.Key, lock.Holders, lock.Waiters, step)
		}
	}
}

// rawKey returns the key of a name that is not known.
func rawKey(name string) string { return pglock.Int64Key(pglock.NewKey(name).Int64()).String() }
