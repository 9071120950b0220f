//go:build unix

package fencing_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/examples/fencing"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

const (
	serviceVariable  = "PGLOCK_EXAMPLE_SERVICE"
	databaseVariable = "PGLOCK_EXAMPLE_DATABASE"

	frozenLease = time.Second
)

var registerKey = pglock.NewKey("register")

// writeLate is a process that takes the lock and writes on command without checking the lock again, like a process that
// was frozen between the check and the write.
func writeLate(service, database string) {
	ctx := context.Background()
	l, err := pglock.Open(ctx, database, pglock.WithLease(frozenLease))
	if err != nil {
		log.Fatal(err)
	}
	lock, err := l.Lock(ctx, registerKey)
	if err != nil {
		log.Fatal(err)
	}
	token, err := lock.Fence(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holds the lock")
	var line string
	if _, err := fmt.Scanln(&line); err != nil { // it is frozen here
		log.Fatal(err)
	}
	fmt.Println(send(service, token, "the first holder's"))
}

// send writes to the service and returns the status of the answer.
func send(service string, token int64, value string) int {
	answer, err := http.PostForm(service, url.Values{"token": {strconv.FormatInt(token, 10)}, "value": {value}})
	if err != nil {
		log.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

func TestFencingRefusesAHolderThatWasFrozen(t *testing.T) {
	db := testenv.Database(t)
	must.Succeed(t, migrations.Up(t.Context(), db.Pool(t)))
	register := &fencing.Register{}
	service := httptest.NewServer(register)
	t.Cleanup(service.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)

	first := exec.Command(os.Args[0])
	first.Env = append(os.Environ(), serviceVariable+"="+service.URL, databaseVariable+"="+db.ConnString())
	first.Stderr = os.Stderr
	input, err := first.StdinPipe()
	must.Succeed(t, err)
	output, err := first.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, first.Start())
	t.Cleanup(func() { _ = first.Process.Kill() }) // it has ended unless the test has failed
	var word, the, object string
	if _, err := fmt.Fscan(output, &word, &the, &object); err != nil || word != "holds" {
		t.Fatalf("the first process says %q, %v", word, err)
	}
	must.Succeed(t, first.Process.Signal(syscall.SIGSTOP))

	l, err := pglock.NewWithConfig(db.Config(t))
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, l.Close(context.Background())) })
	lock, err := l.Lock(t.Context(), registerKey) // when the lease of the first is over
	if err != nil {
		t.Fatal(err)
	}
	token, err := lock.Fence(t.Context())
	must.Succeed(t, err)
	if status := send(service.URL, token, "the second holder's"); status != http.StatusOK {
		t.Errorf("the second holder's write is answered with %d", status)
	}
	must.Succeed(t, first.Process.Signal(syscall.SIGCONT))
	_, err = io.WriteString(input, "go\n")
	must.Succeed(t, err)
	var status int
	if _, err := fmt.Fscan(output, &status); err != nil || status != http.StatusConflict {
		t.Errorf("the first holder's late write is answered with %d, %v", status, err)
	}
	must.Succeed(t, first.Wait())
	if value := register.Value(); value != "the second holder's" {
		t.Errorf("the value is %q", value)
	}
	must.Succeed(t, lock.Unlock(t.Context()))
}
