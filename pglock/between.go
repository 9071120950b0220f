package pglock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
)

// This file finds deadlocks with calls of other processes (package between). A call that has waited for a second and holds
// something is published; then the Locker looks at what all processes have published, once a second and whenever one of
// its published waits ends.
//
// A deadlock counts when two looks, a tenth of a second apart, have seen the same waits in a cycle: each of them lasted from
// one look to the other. The text of a process may be late by as long as a statement takes, but not by that much. A lock that was
// taken again is another wait, and one that another session of the process has got is not believed to be held by the old one.
//
// The text is later if its process is frozen, or cut off. If the wait was granted its lock meanwhile, the server names another
// holder, and that wins: there is no cycle. If it ended otherwise (its context, Close, a deadlock), the text wins until it is
// three seconds old, or in rows until the process's lease ends: a call that waits for a lock of that process may give up without
// a deadlock.
//
// The youngest wait of a deadlock gives up. All processes see the same order, so there is one. If it does not, since it is frozen,
// or may not read what the others have published, the next one does two seconds later: a second would be too early, since a
// process may see a cycle a second later than another. A grant that comes meanwhile wins, as it does against the end of a context.

// lookout is what a Locker knows of deadlocks between processes.
type lookout struct {
	locker     *Locker
	graph      *waitGraph
	backend    between.Backend // nil if other processes cannot be seen
	ctx        context.Context // ends with Close
	stop       context.CancelFunc
	background sync.WaitGroup
	changed    chan struct{} // a published wait has ended

	// Under graph.mu:
	waits   map[*wait]struct{}
	looking bool

	// Of the goroutine that looks:
	published bool
	room      int           // for a text
	ahead     time.Duration // the server's clock, from this process's
	numbers   int64         // of waits; also under graph.mu
	first     int           // to be published, of those that there may be no room for
}

// suspicion is a cycle that a wait has been seen in.
type suspicion struct {
	members []between.ID
	since   time.Time
}

func newLookout(l *Locker) *lookout {
	o := &lookout{locker: l, graph: l.graph, changed: make(chan struct{}, 1), waits: map[*wait]struct{}{}, room: leastRoom}
	o.backend, _ = l.backend.(between.Backend)
	o.ctx, o.stop = context.WithCancel(context.Background())
	return o
}

// leastRoom is what the server keeps of a text, whatever its settings.
const leastRoom = 99

// lookout returns where w is to be published; nil if nowhere. Of a call that holds nothing the others need not know.
func (w *wait) lookout() *lookout {
	if len(w.held)+len(w.txs) == 0 && (w.passed == 0 || len(w.keys) == 1) {
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
	o.waits[w] = struct{}{}
	if !o.looking {
		o.looking = true
		o.background.Go(o.run)
	}
}

func (o *lookout) forgetLocked(w *wait) {
	if o == nil {
		return
	}
	delete(o.waits, w)
	if w.number > 0 {
		select {
		case o.changed <- struct{}{}:
		default:
		}
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
		case len(due) > 0:
			pause = min(pause, o.look(due))
		case o.published:
			o.published = o.backend.Board().Withdraw(o.ctx) != nil
		}
		if o.rests() {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-o.changed:
		case <-o.ctx.Done():
		}
		timer.Stop()
	}
}

// rests reports whether there is nothing to look for. A wait that begins later starts the looks again.
func (o *lookout) rests() bool {
	o.graph.mu.Lock()
	defer o.graph.mu.Unlock()
	if o.ctx.Err() == nil && (len(o.waits) > 0 || o.published) {
		return false
	}
	o.looking = false
	return true
}

// due returns the waits that have lasted, the oldest first, and how long it is until the next one has.
func (o *lookout) due() (due []*wait, next time.Duration) {
	o.graph.mu.Lock()
	defer o.graph.mu.Unlock()
	next = hooks.PublishAfter
	for w := range o.waits {
		if left := hooks.PublishAfter - time.Since(w.since); left > 0 {
			next = min(next, left)
		} else {
			due = append(due, w)
		}
	}
	slices.SortFunc(due, func(a, b *wait) int { return a.since.Compare(b.since) })
	return due, next
}

// look publishes the waits and looks. It returns how soon the next look is needed.
func (o *lookout) look(due []*wait) (next time.Duration) {
	if o.room == leastRoom { // the server's clock is not known yet
		if _, err := o.sight(nil); err != nil {
			return hooks.PublishAfter
		}
	}
	before := o.numbers
	sight, err := o.sight(o.texts(due))
	next = hooks.PublishAfter
	if err != nil {
		return next
	}
	if o.numbers > before { // others may just publish what completes its cycle, and the youngest is to see that first
		next = min(next, 2*hooks.ConfirmAfter)
	}
	byNumber := map[int64]*wait{}
	for _, w := range due {
		byNumber[w.number] = w
	}
	seen := map[*wait]bool{}
	for _, d := range between.Find(sight) {
		for rank, member := range d.Waits {
			w := byNumber[member.Number]
			if w == nil || member.Process != sight.Self {
				continue
			}
			seen[w] = true
			cycle := d.Cycle(member)
			w.suspect(d, cycle)
			left := hooks.ConfirmAfter + time.Duration(2*rank)*hooks.PublishAfter - time.Since(w.suspicion.since)
			if left <= 0 {
				if err := o.deadlock(w, cycle, byNumber, sight.Self); err != nil {
					w.giveUp(err)
				}
				left = hooks.PublishAfter
			}
			next = min(next, left)
		}
	}
	for _, w := range due {
		if !seen[w] {
			w.suspicion = suspicion{}
		}
	}
	return next
}

// suspect notes the cycle, or that an earlier one still is in d.
func (w *wait) suspect(d between.Deadlock, cycle []between.Step) {
	still := len(w.suspicion.members) > 0
	for _, id := range w.suspicion.members {
		still = still && slices.ContainsFunc(d.Waits, func(other *between.Wait) bool { return other.ID() == id })
	}
	if still {
		return
	}
	w.suspicion = suspicion{since: time.Now()}
	for _, step := range cycle {
		if step.Wait != nil {
			w.suspicion.members = append(w.suspicion.members, step.Wait.ID())
		}
	}
}

// sight publishes waits and looks.
func (o *lookout) sight(texts []between.Wait) (between.Sight, error) {
	text, written := between.Text(texts, o.room)
	if o.first += written; written == len(texts) {
		o.first = 0
	}
	o.published = true // even if there is no answer
	sight, err := o.backend.Board().Look(o.ctx, text)
	if err == nil {
		o.room = max(sight.Room, leastRoom+1)
		o.ahead = time.Duration(sight.Now)*time.Microsecond - time.Duration(driver.Now())
	}
	return sight, err
}

// texts returns the waits as they are published.
func (o *lookout) texts(due []*wait) (texts []between.Wait) {
	o.graph.mu.Lock()
	defer o.graph.mu.Unlock()
	for i := range due {
		w := due[(o.first+i)%len(due)]
		if _, waits := o.waits[w]; !waits {
			continue
		}
		if w.number == 0 {
			o.numbers++
			w.number = o.numbers
			w.began = (time.Duration(driver.Now()) + o.ahead - time.Since(w.since)).Microseconds()
		}
		texts = append(texts, o.textLocked(w))
	}
	return texts
}

func (o *lookout) textLocked(w *wait) between.Wait {
	text, at := between.Wait{Number: w.number, Began: w.began, Some: w.some, Shared: w.shared}, o.locker.at()
	for _, key := range w.keys {
		text.Wants = append(text.Wants, w.published(key))
	}
	for _, lock := range w.held {
		if lock.hold.locker.at() != at || lock.Err() != nil {
			continue
		}
		b := lock.hold.locker.lookout.backend
		for _, owner := range b.Owners(lock.hold.grant) {
			for _, key := range lock.keys() {
				text.Holds = append(text.Holds, between.Claim{Key: b.Published(key.KeyID), Owner: owner})
			}
		}
	}
	if len(w.keys) > 1 {
		for _, owner := range append(w.locker.lookout.backend.Owners(nil), between.Turn) {
			for _, key := range w.keys[:w.passed] {
				text.Holds = append(text.Holds, between.Claim{Key: w.published(key), Owner: owner})
			}
		}
	}
	for _, tie := range w.txs {
		if tie.server == at {
			text.Txs = append(text.Txs, tie.tx)
		}
	}
	return text
}

// published returns the key by which other processes know what w waits for.
func (w *wait) published(key driver.Key) driver.KeyID {
	if w.locker == nil {
		return key.KeyID
	}
	return w.locker.lookout.backend.Published(key.KeyID)
}

// deadlock returns the error of w, which gives up; nil if w has ended. Other processes publish no names of keys.
func (o *lookout) deadlock(w *wait, cycle []between.Step, known map[int64]*wait, self string) error {
	o.graph.mu.Lock()
	defer o.graph.mu.Unlock()
	if _, waits := o.waits[w]; !waits {
		return nil
	}
	names, held := map[driver.KeyID]Key{}, map[driver.KeyID]*Lock{}
	for _, other := range known {
		if _, waits := o.waits[other]; !waits {
			continue
		}
		for _, key := range other.keys {
			names[other.published(key)] = Key{k: key}
		}
		for _, lock := range other.held {
			b := lock.hold.locker.lookout.backend
			if b == nil {
				continue
			}
			for _, key := range lock.keys() {
				names[b.Published(key.KeyID)], held[b.Published(key.KeyID)] = lock.nameOf(key), lock
			}
		}
	}
	name := func(id driver.KeyID) Key {
		if key, known := names[id]; known {
			return key
		}
		id.Space %= between.Rows
		return Key{k: driver.Key{KeyID: id}}
	}
	e := &DeadlockError{Keys: w.requested()}
	last := cycle[len(cycle)-1]
	for _, step := range cycle {
		call := DeadlockedCall{Holds: name(last.Key), Waits: name(step.Key), By: "session " + step.PID}
		if step.Wait != nil {
			call.WaitsSince = time.UnixMicro(step.Wait.Began)
			call.By = fmt.Sprintf("%s, process %s", step.Wait.Application, step.Wait.Process)
		}
		if step.Wait != nil && step.Wait.Process == self {
			own := known[step.Wait.Number]
			call.By, call.WaitsSince, call.Behind = "", own.since, len(cycle) == 1
			if own.name != nil {
				call.Waits = *own.name
			}
			if lock := held[last.Key]; lock != nil {
				call.HeldSince = wallTime(lock.since)
			}
		}
		e.Cycle = append(e.Cycle, call)
		last = step
	}
	return e
}
