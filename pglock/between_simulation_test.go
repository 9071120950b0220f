//pglock:allow these are tests: many locks are never granted

package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// world simulates processes that see each other's waits, in virtual time. A statement takes its time on the way there and back.
type world struct {
	mu       sync.Mutex
	texts    map[string]string
	change   func(*between.Sight) // plants a fault
	onTheWay time.Duration        // the most that a statement takes in one direction
	freezes  bool                 // processes do, before a statement

	server    *locktest.Server
	lockers   []*pglock.Locker
	published map[string]int64 // the number of the last wait of each process
}

// seen is a backend in memory that takes part.
type seen struct {
	driver.Backend
	world *world
	name  string
}

func newWorld(t *testing.T, processes int) *world {
	w := &world{
		texts: map[string]string{}, published: map[string]int64{}, change: func(*between.Sight) {},
		onTheWay: 30 * time.Millisecond, server: locktest.NewServer(),
	}
	for i := range processes {
		name := fmt.Sprintf("p%d", i)
		inner, err := w.server.Locker(pglock.WithApplicationName(name))
		txCheck(t, err)
		b, err := hooks.Backend(inner)
		txCheck(t, err)
		l, err := pglock.NewWithBackend(&seen{b, w, name}, pglock.WithLogger(slog.New(slog.DiscardHandler)))
		w.lockers = append(w.lockers, closing(t, l, err))
		hooks.Process(l)
	}
	return w
}

func (*seen) Place(driver.Grant) any                  { return "memory" }
func (*seen) SeesRows() bool                          { return false }
func (*seen) Published(key driver.KeyID) driver.KeyID { return key }
func (s *seen) Owner(driver.Grant) string             { return s.name }
func (s *seen) Configure(c hooks.PostgresConfig, given []string) []string {
	c.Application = s.name
	return s.Backend.(hooks.PostgresOptions).Configure(c, given)
}
func (s *seen) Look(ctx context.Context, text string) (sight between.Sight, err error) {
	w := s.world
	onTheWay := func(d time.Duration) {
		select {
		case <-time.After(rand.N(d)):
		case <-ctx.Done():
		}
	}
	if onTheWay(w.onTheWay); w.freezes && rand.IntN(20) == 0 {
		onTheWay(10 * time.Second)
	}
	defer onTheWay(w.onTheWay)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts[s.name] = text
	sight = between.Sight{Now: time.Now().UnixMicro(), Self: s.name, Room: 4000}
	keys := map[driver.KeyID]bool{}
	for process, text := range w.texts {
		for _, wait := range between.Parse(strings.TrimPrefix(text, between.Prefix)) {
			wait.Process = process
			w.published[process] = max(w.published[process], wait.Number)
			sight.Waits = append(sight.Waits, wait)
			for _, key := range wait.Wants {
				keys[key] = true
			}
		}
	}
	for key := range keys {
		holders, err := s.Backend.Holders(ctx, driver.Key{KeyID: key})
		if err != nil {
			return sight, err
		}
		for _, h := range holders {
			sight.Holders = append(sight.Holders, between.Holder{KeyID: key, Owner: h.Application})
		}
	}
	w.change(&sight)
	return sight, nil
}

// cycle closes a cycle of processes, and returns how many calls gave up, and how soon the first did.
func (w *world) cycle(t *testing.T) (victims int32, after time.Duration) {
	var all, have sync.WaitGroup
	var given atomic.Int32
	var first, last atomic.Int64
	have.Add(len(w.lockers))
	for i, l := range w.lockers {
		mine, other := pglock.Int64Key(int64(i)), pglock.Int64Key(int64((i+1)%len(w.lockers)))
		all.Go(func() {
			lock := mustLock(t, l, mine)
			have.Done()
			have.Wait()
			time.Sleep(rand.N(3 * time.Second))
			last.Store(max(last.Load(), time.Now().UnixNano()))
			err := l.Do(lock.Context(t.Context()), other, nothing)
			if errors.Is(err, pglock.ErrDeadlock) {
				given.Add(1)
				first.CompareAndSwap(0, time.Now().UnixNano())
			} else {
				txCheck(t, err)
			}
			time.Sleep(rand.N(time.Second)) // what it was to do, or to undo
			txCheck(t, lock.Unlock(t.Context()))
		})
	}
	all.Wait()
	return given.Load(), time.Duration(first.Load() - last.Load())
}

// Each cycle ends, soon, and one call gives up; if statements take seconds, or processes freeze, it ends later. If each process thought that its own wait were the youngest, several would.
func TestDeadlockEachCycleOfProcessesHasOneVictim(t *testing.T) {
	run := func(slow bool, change func(*between.Sight)) (processes int, victims int32, after time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2+rand.IntN(5))
			w.change = change
			if slow {
				w.onTheWay, w.freezes = rand.N(5*time.Second)+1, rand.IntN(2) == 0
			}
			processes = len(w.lockers)
			victims, after = w.cycle(t)
		})
		return processes, victims, after
	}
	slowest := time.Duration(0)
	for range 60 {
		if processes, victims, _ := run(true, func(*between.Sight) {}); victims != 1 {
			t.Errorf("of %d slow processes, %d calls give up", processes, victims)
		}
		processes, victims, after := run(false, func(*between.Sight) {})
		if victims != 1 || after > 2500*time.Millisecond {
			t.Errorf("of %d processes, %d calls give up, after %v", processes, victims, after)
		}
		slowest = max(slowest, after)
	}
	t.Logf("the slowest took %v", slowest)
	for range 1000 {
		_, victims, _ := run(false, func(s *between.Sight) {
			for i := range s.Waits {
				if s.Waits[i].Process == s.Self {
					s.Waits[i].Began += time.Hour.Microseconds()
				}
			}
		})
		if victims > 1 {
			return
		}
	}
	t.Error("processes that disagree about the youngest never had two victims, so this test shows nothing")
}

// calmly lets processes lock in changing orders, at each moment in one order, so that there is no deadlock, while they hand
// locks off, share them, lose them, give up, and take them again. It returns how many waits were published.
func (w *world) calmly(t *testing.T, rounds int) (published, victims int64) {
	const keys, callers = 6, 4
	given := atomic.Int64{}
	for range rounds {
		var all sync.WaitGroup
		order := rand.Perm(keys)
		for _, l := range w.lockers {
			for range callers {
				all.Go(func() {
					ctx, held := t.Context(), []*pglock.Lock{}
					for _, key := range order {
						if rand.IntN(2) == 0 {
							continue
						}
						opts := []pglock.LockOption{pglock.MaxWait(time.Minute)}
						if rand.IntN(4) == 0 {
							opts = append(opts, pglock.Shared())
						}
						if rand.IntN(8) == 0 {
							opts[0] = pglock.MaxWait(rand.N(300 * time.Millisecond))
						}
						lock, err := l.Lock(ctx, pglock.Int64Key(int64(key)), opts...)
						if errors.Is(err, pglock.ErrDeadlock) {
							given.Add(1)
						}
						if err != nil {
							break
						}
						held, ctx = append(held, lock), lock.Context(ctx)
						time.Sleep(rand.N(20 * time.Millisecond))
						if rand.IntN(50) == 0 {
							w.server.Lose(pglock.Int64Key(int64(rand.IntN(keys))))
						}
					}
					for _, lock := range held {
						_ = lock.Unlock(t.Context()) // it may have been lost with another
					}
				})
			}
		}
		all.Wait()
	}
	for _, last := range w.published {
		published += last
	}
	return published, given.Load()
}

// No call gives up without a deadlock, even if processes freeze. Some would if texts that are as old as the first look counted: what
// a process has published is late.
func TestDeadlockWithoutACycleOfProcessesThereIsNoVictim(t *testing.T) { calmly(t, 60, 60) }

func TestLongDeadlockWithoutACycleOfProcessesThereIsNoVictim(t *testing.T) {
	calmly(t, 50_000, 100_000)
}

func calmly(t *testing.T, rounds int, least int64) {
	defer func(publish, confirm time.Duration) {
		hooks.PublishAfter, hooks.ConfirmAfter = publish, confirm
	}(hooks.PublishAfter, hooks.ConfirmAfter)
	hooks.PublishAfter = 10 * time.Millisecond
	published, victims := int64(0), int64(0)
	for _, freezes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 4)
			w.freezes = freezes
			more, gave := w.calmly(t, rounds/2)
			published, victims = published+more, victims+gave
		})
	}
	t.Logf("%d waits were looked at", published)
	if victims > 0 || published < least {
		t.Errorf("of %d waits that were looked at, %d gave up", published, victims)
	}
	for range 1000 {
		synctest.Test(t, func(t *testing.T) {
			w, looks := newWorld(t, 4), int64(0)
			w.freezes = true
			w.change = func(s *between.Sight) {
				looks += 2
				for i := range s.Waits {
					s.Waits[i].Answers = looks
				}
			}
			_, victims = w.calmly(t, 30)
		})
		if victims > 0 {
			return
		}
	}
	t.Error("with texts that are old no call gave up, so this test shows nothing")
}
