// Package testenv provides tests with real servers: a database on a shared PostgreSQL, a separate PostgreSQL to
// break, a PgBouncer in front of it. It checks that a test leaves no lock, session or goroutine behind.
//
// The PostgreSQL is that of PGLOCK_TEST_DATABASE_URL, or else it is started from the programs on this machine, once for
// each test binary. If there are none the test fails and says what to install; nothing is ever skipped.
//
// It is only for tests and imports package testing. Package pgserver, which it uses, is for other programs too.
package testenv

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	// patience is how long something that must happen may take. It is generous for slow machines.
	patience = 3 * time.Minute
	// The pause between two checks grows: a check may be a query, or another program.
	shortestPause, longestPause = 2 * time.Millisecond, 50 * time.Millisecond
)

// goroutinePatience is how long goroutines may take to end after the last test. Those that never do cost all of it.
// When pgx gives a connection up, it waits for 15 s for the answer to its cancel request.
var goroutinePatience = 20 * time.Second

// Main is for TestMain: it runs the tests, stops the servers, checks for leaked goroutines, and exits. Options name
// goroutines that may stay.
func Main(m *testing.M, options ...goleak.Option) {
	os.Exit(run(m, options))
}

// MainAlone is [Main] for packages whose tests look at all of a server, such as its transaction IDs, its log or the locks in
// all databases: they do not share that of a run of tests.
func MainAlone(m *testing.M, options ...goleak.Option) {
	if os.Getenv(InstalledVariable) != "" {
		_, _ = os.Unsetenv(DatabaseVariable), os.Unsetenv(InstalledVariable) // they fail for malformed names only
	}
	Main(m, options...)
}

func run(m *testing.M, options []goleak.Option) int {
	unignoreSignals()
	code := m.Run()
	err := errors.Join(endExamples(), shared.stop())
	if code == 0 {
		err = errors.Join(err, leaked(options))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return max(code, 1)
	}
	return code
}

// leaked waits for goroutines that are about to end: go-redis' dialer, for one, sleeps for a second before it sees that its
// pool is closed.
func leaked(options []goleak.Option) error {
	var err error
	poll(goroutinePatience, func() bool { err = goleak.Find(options...); return err == nil })
	return err
}

// WaitUntil polls until done returns true, and fails the test if that takes more than a minute. what completes the
// sentence "timed out waiting until".
func WaitUntil(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !poll(patience, done) {
		t.Fatalf("timed out after %s waiting until %s", patience, what)
	}
}

func poll(atMost time.Duration, done func() bool) bool {
	pause := shortestPause
	for deadline := time.Now().Add(atMost); !done(); pause = min(2*pause, longestPause) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
