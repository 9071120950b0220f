//go:build unix

package leader_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// TestLongLeaderIsAloneUnderFaults lets four processes campaign while the leader is killed, frozen or cut off, or its
// session is terminated. Their reports about their contexts are compared on one clock:
//
//   - After a silent loss (frozen, cut off) and a death no context is alive when the next process leads.
//   - Where the server ended the session two contexts may overlap for as long as it takes to notice that: a network
//     delay, here that of a busy machine.
//   - In any case guarded writes of a term come after all those of the terms before.
func TestLongLeaderIsAloneUnderFaults(t *testing.T) {
	db := testenv.Database(t)
	conn := db.Connect(t)
	if _, err := conn.Exec(t.Context(), "create table writes (id bigserial primary key, term text not null)"); err != nil {
		t.Fatal(err)
	}
	election := &election{t: t, db: db}
	t.Cleanup(election.stop)
	for range 4 {
		election.join()
	}
	type fault struct {
		name string
		do   func(*process)
	}
	faults := []fault{{"kill", election.kill}, {"terminate", election.terminate}}
	if db.FreesFrozen(t) {
		faults = append(faults, fault{"freeze", election.freeze}, fault{"partition", election.cut})
	}
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		for _, fault := range faults {
			led := election.awaitLeader()
			time.Sleep(rand.N(20 * time.Millisecond)) // so that faults occur at any moment of a transaction
			fault.do(led)
			next := election.awaitNext(led)
			t.Logf("%s: the next one leads after %v", fault.name, next.leads.Sub(led.hit).Round(time.Millisecond))
		}
	}
	election.stop()
	if n := election.check(conn); n < 3*rounds*len(faults) {
		t.Errorf("there were only %d guarded writes", n)
	}
}

// election has all processes so far, and the terms that they have reported.
type election struct {
	t  *testing.T
	db *testenv.DB

	mu        sync.Mutex
	processes []*process
	terms     []*reported // in the order in which their beginnings were reported
	stopped   bool
}

// process is a child of the test.
type process struct {
	cmd  *exec.Cmd
	read chan struct{} // closed when all its output has been read
	hit  time.Time     // just before its last fault
}

// reported is a term as reported by its process.
type reported struct {
	by      *process
	token   string
	leads   time.Time
	alive   time.Time // when its context was last seen alive
	writes  int       // guarded writes that it knows to be committed
	over    bool      // its process has led again
	noticed bool      // the server ended the session, so the end is noticed late
}

func (e *election) join() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), processVariable+"="+e.db.ConnString())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	p := &process{cmd: cmd, read: make(chan struct{})}
	e.mu.Lock()
	e.processes = append(e.processes, p)
	e.mu.Unlock()
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			e.readLine(p, lines.Text())
		}
	}()
}

func (e *election) readLine(p *process, line string) {
	var nanos int64
	var token string
	e.mu.Lock()
	defer e.mu.Unlock()
	if strings.HasPrefix(line, "leads ") {
		if _, err := fmt.Sscanf(line, "leads %d %s", &nanos, &token); err != nil {
			e.t.Errorf("%q: %v", line, err)
		}
		for _, term := range e.terms {
			term.over = term.over || term.by == p
		}
		at := time.Unix(0, nanos)
		e.terms = append(e.terms, &reported{by: p, token: token, leads: at, alive: at})
		return
	}
	last := slices.IndexFunc(e.terms, func(r *reported) bool { return r.by == p && !r.over })
	switch _, err := fmt.Sscanf(line, "alive %d", &nanos); {
	case last < 0:
	case err == nil:
		e.terms[last].alive = time.Unix(0, nanos)
	case line == "wrote":
		e.terms[last].writes++
	} // anything else is a line that was cut off by the process's end
}

// awaitLeader waits for a process that leads and writes, and that has had no fault in its term.
func (e *election) awaitLeader() *process {
	e.t.Helper()
	return e.awaitTerm("there is a leader that writes", func(r *reported) bool {
		return r.leads.After(r.by.hit) && r.writes >= 3 && time.Since(r.alive) < time.Second
	}).by
}

// awaitNext waits for the term after a fault.
func (e *election) awaitNext(hit *process) *reported {
	e.t.Helper()
	return e.awaitTerm("another term has begun", func(r *reported) bool { return r.leads.After(hit.hit) })
}

func (e *election) awaitTerm(what string, is func(*reported) bool) (found *reported) {
	e.t.Helper()
	testenv.WaitUntil(e.t, what, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		if n := len(e.terms); n > 0 && is(e.terms[n-1]) {
			found = e.terms[n-1]
		}
		return found != nil
	})
	return found
}

// beforeFault must be called before a fault of p. Terms that begin later are new ones.
func (e *election) beforeFault(p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.hit = time.Now()
}

func (e *election) signal(p *process, s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		e.t.Error(err)
	}
}

func (e *election) kill(p *process) {
	e.beforeFault(p)
	e.signal(p, syscall.SIGKILL)
	_ = p.cmd.Wait() // it says that it was killed
	e.join()
}

func (e *election) freeze(p *process) {
	e.beforeFault(p)
	e.signal(p, syscall.SIGSTOP)
	e.awaitNext(p)
	e.signal(p, syscall.SIGCONT)
}

func (e *election) cut(p *process) {
	e.beforeFault(p)
	e.signal(p, syscall.SIGUSR1)
}

func (e *election) terminate(p *process) {
	e.mu.Lock()
	e.terms[len(e.terms)-1].noticed = true
	e.mu.Unlock()
	e.beforeFault(p)
	terminateHolder(e.t, e.db, electionKey)
}

// stop ends all processes.
func (e *election) stop() {
	if e.stopped {
		return
	}
	e.stopped = true
	for _, p := range e.processes {
		_ = p.cmd.Process.Kill() // some are gone already
		<-p.read
		_ = p.cmd.Wait()
	}
}

// mayOverlap is how long it may take to notice that the server ended a session. It is generous, since the machine may
// be busy with other tests.
const mayOverlap = time.Second

// check compares the reports, and returns how many guarded writes there were.
func (e *election) check(conn *pgx.Conn) int {
	slices.SortFunc(e.terms, func(a, b *reported) int { return a.leads.Compare(b.leads) })
	for i, term := range e.terms {
		for _, next := range e.terms[i+1:] {
			over := term.alive.Sub(next.leads)
			if over > 0 && !(term.noticed && over < mayOverlap) {
				e.t.Errorf("term %s was alive %v after term %s had begun", term.token, over, next.token)
			}
			if over > 0 {
				e.t.Logf("two contexts overlapped for %v where the server ended a session", over)
			}
		}
	}
	rows, err := conn.Query(e.t.Context(), "select term from writes order by id")
	if err != nil {
		e.t.Fatal(err)
	}
	writes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		e.t.Fatal(err)
	}
	over, last := map[string]bool{}, ""
	for i, term := range writes {
		if term != last {
			over[last] = true
		}
		if over[term] {
			e.t.Errorf("write %d is of term %s, which had a successor", i, term)
		}
		last = term
	}
	e.t.Logf("%d terms, %d guarded writes", len(e.terms), len(writes))
	return len(writes)
}
