package failover_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

var promotions = flag.Int("promotions", 1, "how often each test promotes a standby")

func TestMain(m *testing.M) { testenv.Main(m) }

var allModes = []mode{killed, cutOff, immediate, frozen, fast, zombie}

// TestLongFailoverSynchronousLosesNothing: guarded writes, tokens, runs, what is done once and rates survive.
func TestLongFailoverSynchronousLosesNothing(t *testing.T) {
	c := &campaign{T: t, title: "PostgreSQL, failover, synchronous", synchronous: true, guarded: true, modes: allModes}
	c.run(*promotions)
}

// TestLongFailoverAsynchronousLosesOnlyWhatWasNotReplicated: the rest is as ever, and what is left is consistent.
func TestLongFailoverAsynchronousLosesOnlyWhatWasNotReplicated(t *testing.T) {
	c := &campaign{T: t, title: "PostgreSQL, failover, asynchronous", guarded: true, modes: allModes}
	c.run(*promotions)
}

// TestLongFailoverBesideAnOldPrimaryThatLivesOn is the same while the old primary confirms writes, all of which are lost.
func TestLongFailoverBesideAnOldPrimaryThatLivesOn(t *testing.T) {
	c := &campaign{T: t, title: "PostgreSQL, failover, old primary lives on", guarded: true, modes: []mode{zombie}}
	o := c.run(*promotions)
	if o.figures.lost["guarded"]+o.figures.lost["leader"] == 0 {
		t.Error("the old primary lost no writes, so the oracle may not see what is lost")
	}
}

// TestLongFailoverControl shows that the oracle sees what it looks for: with an asynchronous standby, and workers without guards,
// the assertions of synchronous failovers fail.
func TestLongFailoverControl(t *testing.T) {
	if *promotions < len(controls) {
		t.Skipf("it needs -promotions=%d", len(controls))
	}
	c := &campaign{T: t, title: "the same without guards and standby: control", control: true, modes: controls}
	f := c.run(len(controls)).figures
	if f.lost["guarded"] == 0 || f.repeated == 0 || f.goneBack == 0 || f.overwritten == 0 || f.violations == 0 {
		t.Errorf("the control lost %d, repeated %d, had %d tokens go back and %d updates overwritten, of %d violations; want some of each",
			f.lost["guarded"], f.repeated, f.goneBack, f.overwritten, f.violations)
	}
}

var controls = []mode{zombie, cutOff, frozen, zombie, cutOff, frozen}

// campaign is a number of failovers.
type campaign struct {
	*testing.T
	title                string
	synchronous, guarded bool
	control              bool // of an asynchronous pair, by the assertions of a synchronous one
	modes                []mode

	pair    *pair
	history *history
	tally   faults.Tally
}

const schema = `create table counter (unit text primary key, n int not null);
	create table written (kind text, unit text, id text primary key, n int not null)`

func (c *campaign) run(times int) *oracle {
	start := time.Now()
	c.tally.Part = c.title
	c.pair, c.history = newPair(c.T, c.synchronous), newHistory()
	c.install(c.pair.server(0).ConnString(pgserver.Superuser))
	end := c.startWorkers()
	for i := range times {
		c.awaitWork()
		c.failOver(c.modes[i%len(c.modes)])
		if c.Failed() {
			break
		}
	}
	c.awaitWork()
	end()
	return c.finish(c.pair.connect(), start)
}

// finish checks what the workers were told against the last primary, and prints what it has cost.
func (c *campaign) finish(conn *pgx.Conn, start time.Time) *oracle {
	o := &oracle{T: c.T, history: c.history, tally: &c.tally, synchronous: c.synchronous || c.control, control: c.control}
	o.check(conn)
	must.Succeed(c.T, conn.Close(context.Background()))
	c.tally.Operations.Store(int64(c.history.total))
	c.tally.Took = time.Since(start)
	fmt.Print("\n", faults.Table([]*faults.Tally{&c.tally}), "\n", o.report(), "\n")
	return o
}

func (c *campaign) install(url string) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	must.Succeed(c.T, err)
	defer pool.Close()
	must.Succeed(c.T, migrations.Up(ctx, pool))
	_, err = pool.Exec(ctx, schema)
	must.Succeed(c.T, err)
}

// startWorkers starts four processes, half of which know all places, and half an address that moves.
func (c *campaign) startWorkers() (end func()) {
	hosts, moving := c.pair.urls()
	return c.start([]string{hosts, moving, hosts, moving}, 0)
}

// start starts a process at each of the addresses, and numbers them.
func (c *campaign) start(urls []string, first int) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var all []*worker
	var working sync.WaitGroup
	for i, url := range urls {
		w := newWorker(c.T, c.history, first+i, c.guarded, url)
		all = append(all, w)
		for _, do := range kinds {
			working.Go(func() { w.work(ctx, do) })
		}
	}
	return func() {
		stop()
		working.Wait()
		for _, w := range all {
			w.close()
		}
	}
}

// awaitWork returns when each kind of work has been done on the primary since now, and each worker has written.
func (c *campaign) awaitWork() {
	wanted := map[string]int{}
	for kind := range kinds {
		wanted[kind] = 3
	}
	for i := range 4 {
		wanted[fmt.Sprint("guarded", i)] = 1
	}
	c.await(wanted)
}

// await returns when what is wanted has been done as often since now.
func (c *campaign) await(wanted map[string]int) {
	c.history.forget()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		var missing []string
		for what, n := range wanted {
			if c.history.done(what) < n {
				missing = append(missing, what)
			}
		}
		if len(missing) == 0 {
			return
		}
		if time.Since(began) > patience {
			slices.Sort(missing)
			c.tally.Violations.Add(1)
			c.Fatalf("VIOLATION: after %v these did not go on: %s", patience, strings.Join(missing, ", "))
		}
	}
}

func (c *campaign) failOver(m mode) {
	h, p := c.history, c.pair
	e := h.begins(m, p.port(), p.server(p.standby).Port())
	p.fail(m)
	c.count(m)
	old := p.promote()
	e.promoted = h.now()
	e.switched = p.switched()
	if m.livesOn() {
		c.shadow(e, old)
	} else {
		e.end = h.now() + lease
		p.rebuild(old)
		p.retire(old)
	}
	c.tally.Trials.Add(1)
}

// shadow lets the old primary answer beside the new one for a while.
func (c *campaign) shadow(e *era, old int) {
	if e.mode != zombie {
		time.Sleep(lease) // an overlap would be seen
	}
	c.pair.revive(e.mode, old)
	e.revived = c.history.now()
	c.pair.rebuild(old)
	late := c.startLate()
	time.Sleep(shadow)
	late()
	c.pair.end(old)
	e.end = c.history.now() + lease
	c.pair.retire(old)
}

// startLate starts two processes that have never known the old primary, so that work goes on beside it.
func (c *campaign) startLate() (end func()) {
	hosts, moving := c.pair.urls()
	return c.start([]string{moving, hosts}, 4)
}

func (c *campaign) count(m mode) {
	switch m {
	case frozen:
		c.tally.Freezes.Add(1)
	case cutOff:
		c.tally.Partitions.Add(1)
	case zombie:
	default:
		c.tally.Kills.Add(1)
	}
}
