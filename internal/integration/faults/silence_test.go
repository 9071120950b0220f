package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// lease is short, so that a trial takes a few seconds.
const lease = time.Second

// patience is the longest time for something that must happen within a few leases.
const patience = time.Minute

// A fault happens to a holder of locks. It is later undone so that the trial can end.
type fault struct {
	what string
	make func(*trial)
	undo func(*trial)
	// frees says that the server frees the locks while the fault lasts.
	frees bool
	// keeps says that the holder may keep its locks: it releases them after the fault.
	keeps bool
}

// scene is where trials happen: a deployment, and the distance of the holders from it.
type scene struct {
	deployment
	distance time.Duration
	tally    *faults.Tally
}

// trial is one holder of a few locks, to which a fault happens, and one Locker that waits for the same locks.
type trial struct {
	*testing.T
	scene
	name    string
	history *histories.History
	link    *testenv.Link
	victim  *client
	next    *client
	held    []*held
	undone  func() // set by the fault that needs it
}

// held is a lock of the victim.
type held struct {
	key    pglock.Key
	lock   *pglock.Lock
	holder int
	shared bool

	mu   sync.Mutex
	over bool // the victim has noticed that it does not hold the lock
}

var trialNumber atomic.Int64

// inTrial runs one trial of a fault.
func (s scene) inTrial(t *testing.T, f fault) {
	tr := &trial{
		T: t, scene: s, history: histories.New(), link: testenv.NewLink(s.distance),
		name: fmt.Sprintf("trial-%d", trialNumber.Add(1)),
	}
	defer tr.link.Close()
	var err error
	if tr.victim, err = s.open(tr.link.Dial, tr.name); err != nil {
		t.Error(err)
		return
	}
	defer tr.closeVictim()
	if tr.next, err = s.open(new(net.Dialer).DialContext, tr.name+"-next"); err != nil {
		t.Error(err)
		return
	}
	defer tr.closeNext()
	if err := tr.takeLocks(); err != nil {
		t.Errorf("%s: before the fault: %v", f.what, err)
		return
	}
	tr.run(f)
	check(t, s.tally, f.what+", "+tr.name, tr.history)
	s.tally.Trials.Add(1)
}

func (tr *trial) run(f fault) {
	watching, stopWatching := context.WithCancel(context.Background())
	var watcher sync.WaitGroup
	watcher.Go(func() { tr.watch(watching) })
	watcher.Go(func() { tr.keepBusy(watching) })
	defer watcher.Wait()
	defer stopWatching()

	var successors sync.WaitGroup
	early := rand.IntN(2) == 0
	if early {
		tr.takeOver(&successors)
	}
	time.Sleep(rand.N(lease / 2))
	f.make(tr)
	if !early {
		tr.takeOver(&successors)
	}
	if f.keeps {
		time.Sleep(lease + rand.N(lease))
		f.undo(tr)
		tr.unlockAll()
		successors.Wait()
		return
	}
	if !f.frees {
		tr.awaitLoss(f)
		time.Sleep(rand.N(lease / 4))
		f.undo(tr)
	}
	successors.Wait()
	if f.frees {
		f.undo(tr)
	}
	tr.awaitLoss(f)
}

// takeLocks makes the victim take locks in each way: at once, shared, and after a wait.
func (tr *trial) takeLocks() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, shared := range []bool{false, true, false} {
		key := pglock.NewKey(fmt.Sprintf("%s:%d", tr.name, i))
		if waited := i == 2; waited {
			before, err := tr.next.lock(ctx, key, func() {})
			if err != nil {
				return err
			}
			go func() {
				time.Sleep(rand.N(20 * time.Millisecond))
				_ = before.Unlock(ctx) // if it fails the victim does not get the lock
			}()
		}
		var opts []pglock.LockOption
		if shared {
			opts = append(opts, pglock.Shared())
		}
		var asked time.Duration
		lock, err := tr.victim.lock(ctx, key, func() { asked = tr.history.Now() }, opts...)
		tr.tally.Operations.Add(1)
		if err != nil {
			return err
		}
		h := &held{key: key, lock: lock, holder: tr.history.Holder(), shared: shared}
		tr.held = append(tr.held, h)
		tr.add(h, histories.Acquired, asked, tr.history.Now())
	}
	return nil
}

func (tr *trial) add(h *held, event histories.Event, from, to time.Duration) {
	tr.history.Add(histories.Entry{
		Key: h.key.String(), Holder: h.holder, Shared: h.shared, Event: event, From: from, To: to,
	})
}

// look records what the victim finds now.
func (tr *trial) look(h *held) (over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return true
	}
	from := tr.history.Now()
	if h.lock.Err() == nil {
		tr.add(h, histories.Held, from, tr.history.Now())
		return false
	}
	h.over = true
	tr.add(h, histories.Lost, 0, tr.history.Now())
	return true
}

// watch checks all locks of the victim until they have ended.
func (tr *trial) watch(ctx context.Context) {
	for ctx.Err() == nil {
		over := 0
		for _, h := range tr.held {
			if tr.look(h) {
				over++
			}
		}
		if over == len(tr.held) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// keepBusy makes sure, in half of the trials, that statements of the victim are on their way when the fault happens.
func (tr *trial) keepBusy(ctx context.Context) {
	if rand.IntN(2) == 0 {
		return
	}
	key := pglock.NewKey(tr.name + ":busy")
	for ctx.Err() == nil && tr.held[0].lock.Err() == nil {
		tr.tally.Operations.Add(1)
		lock, err := tr.victim.TryLock(ctx, key)
		if err == nil {
			err = lock.Unlock(ctx)
		}
		if err != nil {
			return
		}
		time.Sleep(rand.N(4 * time.Millisecond))
	}
}

// takeOver makes the other Locker wait for all keys. As soon as it has one it checks the victim's lock.
func (tr *trial) takeOver(successors *sync.WaitGroup) {
	for _, h := range tr.held {
		successors.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			var asked time.Duration
			lock, err := tr.next.lock(ctx, h.key, func() { asked = tr.history.Now() })
			granted := tr.history.Now()
			tr.tally.Operations.Add(1)
			if err != nil {
				violation(tr.T, tr.tally, "%s: a lock that was lost cannot be taken: %v", tr.name, err)
				return
			}
			s := &held{key: h.key, lock: lock, holder: tr.history.Holder()}
			tr.add(s, histories.Acquired, asked, granted)
			tr.look(h)
			unlocked := tr.history.Now()
			switch err := lock.Unlock(ctx); {
			case err == nil:
				tr.add(s, histories.Released, unlocked, tr.history.Now())
			case errors.Is(err, pglock.ErrLost): // a server that another trial has frozen
				tr.add(s, histories.Lost, asked, tr.history.Now())
			default:
				tr.add(s, histories.Lost, asked, histories.Never)
			}
		})
	}
}

// awaitLoss waits until the victim has noticed that its locks are lost.
func (tr *trial) awaitLoss(f fault) {
	for _, h := range tr.held {
		select {
		case <-h.lock.Done():
		case <-time.After(patience):
			violation(tr.T, tr.tally, "%s, %s: the holder of %s does not notice that it is lost", f.what, tr.name, h.key)
		}
		tr.look(h)
	}
}

// unlockAll releases the locks that the victim still has.
func (tr *trial) unlockAll() {
	for _, h := range tr.held {
		h.mu.Lock()
		from := tr.history.Now()
		if err := h.lock.Unlock(context.Background()); err == nil {
			tr.add(h, histories.Released, from, tr.history.Now())
		} else if !h.over {
			tr.add(h, histories.Lost, 0, tr.history.Now())
		}
		h.over = true
		h.mu.Unlock()
	}
}

func (tr *trial) closeVictim() {
	for _, h := range tr.held {
		_ = h.lock.Unlock(context.Background()) // its error is known already
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := tr.victim.Close(ctx); err != nil {
		tr.Errorf("%s: Close of the holder: %v", tr.name, err)
	}
	if err := tr.victim.closeClients(); err != nil {
		tr.Error(err)
	}
}

func (tr *trial) closeNext() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(tr.next.Close(ctx), tr.next.closeClients()); err != nil {
		tr.Errorf("%s: Close of the next holder: %v", tr.name, err)
	}
}
