package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// simulation is one schedule.
type simulation struct {
	*testing.T
	seed   uint64
	random *rand.Rand // of the preparation and of the faults
	began  time.Time
	count  *tally

	lease    time.Duration
	distance time.Duration // of the server
	step     time.Duration // durations are multiples of it
	spikes   int           // one of so many messages is slow
	faulty   bool
	nests    bool          // callers lock under the contexts of locks, and processes publish waits
	ordered  bool          // they do so in one order, so that there are no deadlocks
	finished chan struct{} // closed when all callers have finished

	network  *network
	server   *server
	lockers  []*pglock.Locker
	sessions []int // mux sessions that each may have
	oracle   *oracle

	mu     sync.Mutex
	closed map[int]bool // Lockers

	tracing sync.Mutex
	events  []event
	failed  bool
}

type event struct {
	at     time.Duration
	format string
	args   []any
}

// source returns a source of random numbers for one part of the simulation.
func (s *simulation) source(part uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, part)) }

func (s *simulation) chance(n int) bool { return s.random.IntN(n) == 0 }

// vary draws a duration up to d.
func (s *simulation) vary(random *rand.Rand, d time.Duration) time.Duration {
	return (time.Duration(random.Int64N(int64(d)+1)) / s.step) * s.step
}

// trace records an event.
func (s *simulation) trace(format string, args ...any) {
	s.tracing.Lock()
	defer s.tracing.Unlock()
	s.events = append(s.events, event{time.Since(s.began), format, args})
}

// wrong reports a violation. The first one prints the schedule.
func (s *simulation) wrong(format string, args ...any) {
	s.trace("WRONG: "+format, args...)
	s.tracing.Lock()
	first := !s.failed
	s.failed = true
	s.tracing.Unlock()
	if first {
		s.count.violations++
		s.Errorf("seed %d: %s\n%s", s.seed, fmt.Sprintf(format, args...), s.story())
	}
}

// story is the schedule until now, line by line.
func (s *simulation) story() string {
	s.tracing.Lock()
	defer s.tracing.Unlock()
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "lease %v, distance %v, step %v, %+v\n", s.lease, s.distance, s.step, struct{ blind, sliced bool }{s.server.blind, s.server.sliced})
	for _, e := range s.events {
		_, _ = fmt.Fprintf(&text, "%12v %s\n", e.at, fmt.Sprintf(e.format, e.args...))
	}
	return text.String()
}

// base is the configuration of all Lockers, which takes long to parse.
var base = sync.OnceValue(func() *pgxpool.Config {
	c, err := pgxpool.ParseConfig("postgres://sim@127.0.0.1:5432/sim?sslmode=disable&connect_timeout=2")
	if err != nil {
		panic(err)
	}
	c.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	return c
})

// run runs the schedule of a seed, and returns its trace.
func run(t *testing.T, seed uint64, count *tally) (story string) {
	base()
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{T: t, seed: seed, faulty: seed%4 != 0, count: count, began: time.Now(), closed: map[int]bool{}, finished: make(chan struct{})}
		s.random, s.nests, s.ordered = s.source(0), seed%5 == 0, seed%2 == 0
		s.lease = time.Duration(1000+s.random.IntN(2000)) * time.Millisecond
		s.distance = []time.Duration{20 * time.Microsecond, 200 * time.Microsecond, 5 * time.Millisecond}[s.random.IntN(3)]
		s.step = 1
		if s.chance(4) { // many things happen at the same moment
			s.step = s.distance
		}
		if s.chance(8) { // a release gives up before the lease is over
			s.lease = 10 * time.Second
		}
		s.spikes = []int{40, 8}[s.random.IntN(2)]
		s.oracle = newOracle(s)
		s.server = newServer(s)
		s.network = newNetwork(s, 1+s.random.IntN(3))
		for _, h := range s.network.hosts {
			s.lockers = append(s.lockers, s.newLocker(h))
		}
		s.play()
		time.Sleep(20 * time.Second) // of the bubble's clock: pgx gives a connection up in the background
		count.schedules++
		story = s.story()
	})
	return story
}

func (s *simulation) newLocker(h *host) *pglock.Locker {
	config := base().Copy()
	config.ConnConfig.DialFunc = h.dial
	sessions := 1 + s.random.IntN(2)
	s.sessions = append(s.sessions, sessions)
	options := []pglock.Option{
		pglock.WithLease(s.lease), pglock.WithSessions(sessions), pglock.WithMaxWaitSessions(1 + s.random.IntN(3)),
	}
	if s.chance(3) {
		options = append(options, pglock.WithHandoffLimit(s.random.IntN(3), time.Second))
	}
	l, err := pglock.NewWithConfig(config, options...)
	must.Succeed(s.T, err)
	if s.nests {
		hooks.Process(l)
	}
	return l
}

// play lets callers and faults run, and then looks at what is left.
func (s *simulation) play() {
	var callers sync.WaitGroup
	for i := range len(s.lockers) + 1 + s.random.IntN(4) {
		c := newCaller(s, i)
		callers.Go(c.run)
	}
	faults := make(chan struct{})
	go func() {
		defer close(faults)
		if s.faulty {
			s.disturb()
		}
	}()
	s.mustEnd("a caller", callers.Wait)
	close(s.finished)
	<-faults
	time.Sleep(3 * s.lease) // what had no answer is free by then
	s.mu.Lock()
	for key, l := range s.server.locks.all {
		if len(l.held)+len(l.queue) > 0 {
			s.wrong("%d is held or waited for when all callers have finished", key.Number)
		}
	}
	s.mu.Unlock()
	for i, l := range s.lockers {
		s.mustEnd(fmt.Sprintf("Close of Locker %d", i), func() {
			if err := l.Close(context.Background()); err != nil {
				s.wrong("Close of Locker %d: %v", i, err)
			}
		})
	}
	s.mustEnd("a session", s.server.all.Wait)
	if n := len(s.server.running()); n > 0 {
		s.wrong("%d sessions are left", n)
	}
}

// mustEnd waits for something that must end in bounded time, since each fault ends.
func (s *simulation) mustEnd(what string, ends func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ends()
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		panic(fmt.Sprintf("seed %d: %s does not end\n%s", s.seed, what, s.story())) // nothing else ends a bubble
	}
}
