package pglock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// frozenVariable holds the connection string. If it is set, this test binary is the process that is frozen.
const frozenVariable = "PGLOCK_TEST_TO_BE_FROZEN"

const frozenLease = time.Second

func init() {
	connString := os.Getenv(frozenVariable)
	if connString == "" {
		return
	}
	if err := runFrozen(connString); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// checks are the ways in which a holder can find out whether it still has its lock.
var checks = map[string]func(*pglock.Lock, context.Context) error{
	"Lock.Err":    func(k *pglock.Lock, _ context.Context) error { return k.Err() },
	"Context.Err": func(_ *pglock.Lock, work context.Context) error { return work.Err() },
}

// frozenKey returns the key of the lock for one kind of check. If waited is set, the lock is on a wait session.
func frozenKey(check string, waited bool) pglock.Key {
	return pglock.NewKey(fmt.Sprintf("%s:%v", check, waited))
}

// held is a lock of the process that is frozen.
type held struct {
	name  string
	check func() error
	last  time.Time // the beginning of the last check that found the lock held
	over  bool
}

// runFrozen takes locks, prints a line, and checks them in a loop. When all are lost it prints, for each, when the last
// check began that found it held. The parent compares that with its own wall clock, which is the same.
func runFrozen(connString string) error {
	cfg, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return err
	}
	l, err := pglock.NewWithConfig(cfg, pglock.WithLease(frozenLease), pglock.WithApplicationName(silentApplication))
	if err != nil {
		return err
	}
	var all []*held
	for name, check := range checks {
		for _, waited := range []bool{false, true} {
			key := frozenKey(name, waited)
			lock, err := l.Lock(context.Background(), key)
			for errors.Is(err, pglock.ErrUnavailable) { // a busy machine may need more than the lease to set a session up
				lock, err = l.Lock(context.Background(), key)
			}
			if err != nil {
				return err
			}
			work := lock.Context(context.Background())
			all = append(all, &held{name: key.Name(), check: func() error { return check(lock, work) }})
		}
	}
	fmt.Println("ready")
	for left := len(all); left > 0; {
		for _, h := range all {
			if begin := time.Now(); h.over {
				continue
			} else if h.check() == nil {
				h.last = begin
			} else {
				h.over = true
				left--
			}
		}
	}
	for _, h := range all {
		fmt.Println(h.name, h.last.UnixNano())
	}
	return l.Close(context.Background())
}

// A process is stopped for longer than its lease and continues when others have its locks. The first check of each
// reports the loss, before any timer or message could have.
func TestFaultsAThawedProcessKnowsAtItsFirstLook(t *testing.T) {
	t.Parallel()
	for range testenv.Trials(t, 3) {
		freezeAndThaw(t)
	}
}

func freezeAndThaw(t *testing.T) {
	db := testenv.Database(t)
	next, before := openLocker(t, db), db.Connect(t)
	for name := range checks {
		plainLock(t, before, frozenKey(name, true))
	}
	process, said := startFrozen(t, db)
	for range checks { // it takes its locks one by one
		db.WaitForWaiters(t, 1)
		for _, lock := range db.AdvisoryLocks(t) {
			if !lock.Granted {
				plainUnlock(t, before, pglock.Int64Key(lock.Key))
			}
		}
	}
	if line, err := said.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the process said %q, %v", line, err)
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	granted := map[string]time.Time{}
	var locks []*pglock.Lock
	for name := range checks {
		for _, waited := range []bool{false, true} {
			key := frozenKey(name, waited)
			locks = append(locks, mustLock(t, next, key))
			granted[key.Name()] = time.Now()
		}
	}
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	wantNoticedBefore(t, said, granted)
	for _, lock := range locks {
		mustUnlock(t, lock)
	}
}

// startFrozen starts this program as the process that is frozen.
func startFrozen(t *testing.T, db *testenv.DB) (*os.Process, *bufio.Reader) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), frozenVariable+"="+db.ConnString())
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = cmd.Process.Kill() // it may have ended
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return cmd.Process, bufio.NewReader(stdout)
}

// wantNoticedBefore checks that the process noticed each loss before the next holder got the lock.
func wantNoticedBefore(t *testing.T, said *bufio.Reader, granted map[string]time.Time) {
	t.Helper()
	for range granted {
		line, err := said.ReadString('\n')
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		nanoseconds, numberErr := strconv.ParseInt(text, 10, 64)
		if err := errors.Join(err, numberErr); err != nil {
			t.Fatalf("the process said %q: %v", line, err)
		}
		if last := time.Unix(0, nanoseconds); !last.Before(granted[name]) {
			t.Errorf("%s: a check found the lock held %v after the next holder got it", name, last.Sub(granted[name]))
		}
	}
	if rest, err := io.ReadAll(said); err != nil || len(rest) > 0 {
		t.Errorf("the process also said %q, %v", rest, err)
	}
}
