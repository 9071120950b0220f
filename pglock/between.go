package pglock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
)

// This file finds deadlocks with calls of other processes (package between). A call that has waited for a second and
// holds something is published; then the Locker looks at what all processes have published, twice a second.
//
// What a process has published is late, by as long as a statement takes, or a process is frozen. So a deadlock counts
// only when each process whose calls are in it has looked twice again since it was first seen, and has published the
// same waits: the last text was made after the answer to the one before, and that one came after the first look. So all
// these calls waited, and held what they hold, at the moment of the first look. A lock that was taken again is another
// wait, and one that another session of the process has got is not believed to be held by the old one. What a frozen
// process has published ends with its leases.
//
// The youngest wait of a deadlock gives up, and is not published any more. All processes see the same order, so there
// is one. If it does not, since it may not read what the others have published, the next one does when each process has
// looked twice again, and then once more: by the first time the youngest has seen the cycle, by the second it can know
// that it counts, and by the third it has decided, however slow it is. A grant that comes meanwhile wins, as it does
// against the end of a context.

// lookout is what a Locker knows of deadlocks between processes.
type lookout struct {
	locker     *Locker
	graph      *waitGraph
	backend    between.Backend // nil if other processes cannot be seen
	ctx        context.Context // ends with Close
	stop       context.CancelFunc
	background sync.WaitGroup

	// Under graph.mu:
	runs bool

	// Of the goroutine that looks:
	published bool
	room      int           // for a text; 0 is not known yet
	ahead     time.Duration // the server's clock, from this process's
	answers   int64         // that have come
	numbers   int64         // of waits
}

// suspicion is the cycle that a wait has been seen in.
type suspicion struct {
	answers map[between.ID]int64 // of each of its waits, when times last grew
	times   int                  // how often every process in it has looked twice again
}

func newLookout(l *Locker) *lookout {
	o := &lookout{locker: l, graph: l.graph}
	o.backend, _ = l.backend.(between.Backend)
	o.ctx, o.stop = context.WithCancel(context.Background())
	return o
}

// lookout returns where w is to be published; nil if nowhere. Of a call that holds nothing the others need not know.
func (w *wait) lookout() *lookout {
	if len(w.held)+len(w.txs) == 0 {
		return nil
	}
	here, at := w.locker, fmt.Sprint(w.place)
	if here != nil {
		at = here.at()
	}
	for _, lock := range w.held { // one that sees locks in rows sees all
		l := lock.hold.locker
		if at != "" && l.at() == at && (here == nil || l.lookout.backend.SeesRows()) {
			here = l
		}
	}
	if here == nil || here.at() == "" {
		return nil
	}
	return here.lookout
}

// at says which server and database other processes see the waits of l on; empty is none.
func (l *Locker) at() string {
	if b := l.lookout.backend; b != nil {
		if place := b.Place(nil); place != nil {
			return fmt.Sprint(place)
		}
	}
	return ""
}

// watchLocked sees to it that w is published in time.
func (o *lookout) watchLocked(w *wait) {
	if o == nil || o.ctx.Err() != nil {
		return
	}
	w.watcher = o
	if !o.runs {
		o.runs = true
		o.background.Go(o.run)
	}
}

// close ends the looks.
func (o *lookout) close() {
	o.stop()
	o.background.Wait()
}

// run looks for as long as calls wait.
func (o *lookout) run() {
	for {
		due, pause := o.due()
		switch {
		case pause == 0:
			return
		case len(due) > 0 || o.published:
			pause = min(pause, o.look(due))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-o.ctx.Done():
		}
		timer.Stop()
	}
}

// due returns the waits that have lasted, in the order in which they are published, and how long it is until the next one has
// lasted; 0 says that there is nothing to look for. A wait that begins later starts the looks again.
func (o *lookout) due() (due []*wait, next time.Duration) {
	o.graph.mu.Lock()
	defer o.graph.mu.Unlock()
	next = hooks.PublishAfter
	some := false
	for w := range o.graph.waits {
		if w.watcher != o {
			continue
		}
		some = true
		if left := hooks.PublishAfter - time.Since(w.since); left > 0 {
			next = min(next, left)
		} else {
			due = append(due, w)
		}
	}
	if o.ctx.Err() != nil || !some && !o.published {
		o.runs = false
		return nil, 0
	}
	slices.SortFunc(due, func(a, b *wait) int {
		return cmp.Or(cmp.Compare(max(a.shown, -1), max(b.shown, -1)), cmp.Compare(a.inCycle, b.inCycle), a.since.Compare(b.since))
	})
	return due, next
}

// look publishes the waits and looks. It returns how soon the next look is needed.
func (o *lookout) look(due []*wait) (next time.Duration) {
	next = hooks.PublishAfter / 2
	if o.room == 0 {
		if _, err := o.publish(nil, nil); err != nil {
			return next
		}
	}
	due, texts := o.texts(due)
	if slices.ContainsFunc(due, func(w *wait) bool { return w.shown == 0 }) { // others may just publish what completes its cycle
		next = min(next, hooks.ConfirmAfter)
	}
	sight, err := o.publish(due, texts)
	if err != nil {
		return next
	}
	graph, known := between.NewGraph(sight), map[*between.Wait]*wait{}
	for _, w := range due {
		for _, process := range []string{sight.Self, ""} {
			known[graph.Waits[between.ID{Process: process, Number: w.number}]] = w
		}
	}
	delete(known, nil)
	for text, w := range known {
		cycle, rank := graph.Cycle(text)
		if w.suspect(cycle); len(cycle) == 0 {
			continue
		}
		w.shown = -keepShown
		if w.suspicion.times <= 2*rank {
			next = min(next, hooks.ConfirmAfter)
		} else if err := o.deadlock(w, cycle, known); err != nil {
			w.gaveUp = true
			w.giveUp(err)
		}
	}
	return next
}

// suspect notes the cycle in which w is seen.
func (w *wait) suspect(cycle []between.Step) {
	s, answers := &w.suspicion, map[between.ID]int64{}
	for _, step := range cycle {
		if step.Wait != nil {
			answers[step.Wait.ID] = step.Wait.Answers
			w.inCycle = max(w.inCycle, step.Wait.Began)
		}
	}
	same, again := len(answers) == len(s.answers), true
	for id, n := range answers {
		before, seen := s.answers[id]
		same, again = same && seen, again && n >= before+2
	}
	switch {
	case !same:
		*s = suspicion{answers, 0}
	case again:
		s.answers = answers
		s.times++
	}
}

// publish publishes the waits that there is room for, and looks. It takes them in the order of due: those with which a cycle has
// been seen, in an order in which the others take theirs, too, and then those that have not been published for longest. The first
// has all the room: if it does not fit, it never does.
func (o *lookout) publish(waits []*wait, texts []between.Wait) (between.Sight, error) {
	text, written := between.Text(texts, o.room)
	o.published = true // even if there is no answer
	sight, err := o.backend.Look(o.ctx, text)
	if err == nil {
		o.published = text != ""
		o.answers++
		o.room = sight.Room
		o.ahead = time.Duration(sight.Now)*time.Microsecond - time.Duration(driver.Now())
		for i, w := range waits {
			if !written[i] {
				sight.Add(texts[i])
			}
			if written[i] || i == 0 {
				w.shown = cmp.Or(min(w.shown+1, 0), o.answers)
			}
		}
	}
	return sight, err
}

// keepShown is in how many looks a wait comes first after a cycle has been seen with it: the other processes may have no room for
// theirs in each.
const keepShown = 5

// texts returns those of the waits that have not ended, and their texts.
func (o *lookout) texts(due []*wait) (waits []*wait, texts []between.Wait) {
	o.graph.mu.Lock()
	defer o.graph.mu.Unlock()
	for _, w := range due {
		if !o.graph.waits[w] || w.gaveUp {
			continue
		}
		if w.number == 0 {
			o.numbers++
			w.number = o.numbers
			w.began = (time.Duration(driver.Now()) + o.ahead - time.Since(w.since)).Microseconds()
		}
		waits, texts = append(waits, w), append(texts, o.textLocked(w))
	}
	return waits, texts
}

func (o *lookout) textLocked(w *wait) between.Wait {
	text, at := between.Wait{ID: between.ID{Number: w.number}, Began: w.began, Answers: o.answers, Some: w.some}, o.locker.at()
	text.Shared = w.shared && !w.behindWriter() // behind a writer of its own process it waits for holders that share, too
	for _, key := range w.keys {
		text.Wants = append(text.Wants, w.published(key))
	}
	for _, lock := range w.held {
		if lock.hold.locker.at() != at || lock.Err() != nil {
			continue
		}
		text.Holds = append(text.Holds, lock.claims()...)
	}
	for _, tie := range w.txs {
		if tie.server == at {
			text.Txs = append(text.Txs, tie.tx)
		}
	}
	return text
}

// claims returns what others see that the Lock holds.
func (l *Lock) claims() (claims []between.Claim) {
	b := l.hold.locker.lookout.backend
	for i, key := range l.keys() {
		claims = append(claims, between.Claim{Key: b.Published(key.KeyID), Owner: b.Owner(l.holds()[i].grant)})
	}
	return claims
}

// published returns the key by which other processes know what w waits for.
func (w *wait) published(key driver.Key) driver.KeyID {
	if w.locker == nil {
		return key.KeyID
	}
	return w.locker.lookout.backend.Published(key.KeyID)
}

// deadlock returns the error of w, which gives up; nil if w has ended. Other processes publish no names of keys.
func (o *lookout) deadlock(w *wait, cycle []between.Step, known map[*between.Wait]*wait) error {
	o.graph.mu.Lock()
	defer o.graph.mu.Unlock()
	if !o.graph.waits[w] {
		return nil
	}
	e := &DeadlockError{Keys: w.requested(), Cycle: make([]DeadlockedCall, len(cycle)), at: time.Now()}
	for i, step := range cycle {
		next := (i + 1) % len(cycle)
		call, keeper, own := &e.Cycle[i], &e.Cycle[next], known[step.Wait]
		call.Waits, keeper.HeldSince = nameBetween(own, known[cycle[next].Wait], step.Key)
		keeper.Holds = call.Waits
		switch {
		case step.Wait == nil:
			call.By = "session " + step.PID
		case own == nil:
			call.By = fmt.Sprintf("%s, process %s", step.Wait.Application, step.Wait.Process)
			call.WaitsSince = time.UnixMicro(step.Wait.Began)
		default:
			call.WaitsSince = own.since
			if own.name != nil {
				call.Waits = *own.name
			}
		}
	}
	return e
}

// nameBetween returns the key by which the holder of id or the waiter knows it, whichever is of this process, and since
// when it is held.
func nameBetween(waiter, holder *wait, id driver.KeyID) (Key, time.Time) {
	if holder != nil {
		for _, lock := range holder.held {
			b := lock.hold.locker.lookout.backend
			for _, key := range lock.keys() {
				if b != nil && b.Published(key.KeyID) == id {
					return lock.nameOf(key), wallTime(lock.since)
				}
			}
		}
	}
	if waiter != nil {
		for _, key := range waiter.keys {
			if waiter.published(key) == id {
				return Key{k: key}, time.Time{}
			}
		}
	}
	id.Space %= between.Rows
	return Key{k: driver.Key{KeyID: id}}, time.Time{}
}
