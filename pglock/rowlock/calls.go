package rowlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/combine"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
)

// newCalls returns the queue of what goroutines ask for at the same time: it goes to the server in one statement and one
// commit.
func newCalls(b *backend) *combine.Queue[*call] {
	return &combine.Queue[*call]{Send: b.send, Senders: maxSenders, Most: maxCalls}
}

const (
	maxSenders = 2
	maxCalls   = 1024 // in a statement
)

// call is what one goroutine asks for: to drop things of a holder, or to take a want.
type call struct {
	holder *holder // of the drops, or nil
	drops  []drop
	want   *want

	tries    int
	done     chan struct{} // closed when the fields below have been set
	err      error
	outcomes string // of the drops, a letter for each
	outcome  byte   // of the want
}

// drop is a lock (x), a share (s) or a wait (w) that a holder does not need any more.
type drop struct {
	kind  string
	key   driver.KeyID
	value int64 // the generation or arrival
}

// want is a key that is to be taken.
type want struct {
	grant   *grant // that it becomes
	wait    bool
	arrival int64   // in the queue of the server; 0: it is not there
	holder  *holder // whose arrival that is
	place   place
}

// plain reports whether it is exclusive, and not in the queue, which pglock.lease_call has first.
func (w *want) plain() bool { return !w.grant.shared && w.arrival == 0 }

// turn is what is to be dropped to leave the queue.
func (w *want) turn() drop { return drop{"w", w.grant.key, w.arrival} }

// moveTo makes w a want of h. Its place in a queue is lost with an earlier holder.
func (w *want) moveTo(h *holder) {
	if w.holder == h {
		return
	}
	if w.holder != nil {
		w.holder.forget(w)
	}
	w.holder, w.arrival, w.place = h, 0, place{}
}

// The letters of pglock.lease_call, and the outcomes with which it does nothing.
const (
	granted = 'g' // of a want
	queued  = 'w' // of a want that does not wait: none holds it, but others wait for it
	gone    = 'g' // of a drop
	busy    = 'b'
	over    = "over"
	settled = "settled"
)

// submit sends c with others. c.done is closed when it has been answered.
func (b *backend) submit(c *call) *call {
	c.done = make(chan struct{})
	b.combined.Add(c)
	return c
}

func (c *call) finish(err error) {
	c.err = err
	close(c.done)
}

func finishAll(batch []*call, err error) {
	for _, c := range batch {
		c.finish(err)
	}
}

// send sends a batch and tells each call its outcome, or queues it again.
func (b *backend) send(batch []*call) {
	ctx, cancel := context.WithTimeout(b.life, b.callWithin())
	defer cancel()
	h, err := b.current(ctx)
	if err != nil {
		finishAll(batch, err)
		return
	}
	batch = slices.DeleteFunc(batch, func(c *call) bool { return c.moot(h) })
	if len(batch) == 0 {
		return
	}
	s := newStatement(h, batch)
	var answer lockdb.CallLeasesRow
	err = b.calls.Do(ctx, func(ctx context.Context, q *lockdb.Queries) (err error) {
		answer, err = q.CallLeases(ctx, s.params)
		return err
	})
	switch {
	case link.IsUnknown(err):
		b.settle(s, err)
	case err != nil:
		h.answered(s.params.Attempt)
		finishAll(batch, err)
	case answer.Outcome == over:
		h.answered(s.params.Attempt)
		h.lose(driver.LostGone, errOver)
		b.again(batch, errOver)
	case answer.Outcome == settled: // overtaken by the settlement of a later call
		h.answered(s.params.Attempt)
		b.combined.Add(batch...)
	default:
		b.answer(s, answer)
	}
}

// moot finishes a call that drops what a holder had that is over.
func (c *call) moot(h *holder) bool {
	if c.want != nil || c.holder == h {
		return false
	}
	c.outcomes = strings.Repeat(string(gone), len(c.drops))
	c.finish(nil)
	return true
}

// again sends calls once more; those that were sent twice fail.
func (b *backend) again(batch []*call, err error) {
	for _, c := range batch {
		if c.tries++; c.tries < maxTries && b.life.Err() == nil {
			b.combined.Add(c)
		} else {
			c.finish(fmt.Errorf("%w: %w", driver.ErrUnavailable, err))
		}
	}
}

const maxTries = 2

// statement is a batch as pglock.lease_call takes it.
type statement struct {
	holder *holder
	batch  []*call
	wants  []*call // those of them that want something, the plain ones first
	params lockdb.CallLeasesParams
}

func newStatement(h *holder, batch []*call) *statement {
	s := &statement{holder: h, batch: batch, params: lockdb.CallLeasesParams{
		Holder: h.id, Attempt: h.nextAttempt(), DropSpaces: []int16{}, DropNumbers: []int64{}, DropValues: []int64{},
		Spaces: []int16{}, Numbers: []int64{}, Shared: []bool{}, Waits: []bool{}, Arrivals: []int64{},
	}}
	s.addDrops()
	s.addWants()
	return s
}

func (s *statement) addDrops() {
	p := &s.params
	var kinds strings.Builder
	for _, c := range s.batch {
		for _, d := range c.drops {
			kinds.WriteString(d.kind)
			p.DropSpaces, p.DropNumbers = append(p.DropSpaces, int16(d.key.Space)), append(p.DropNumbers, d.key.Number)
			p.DropValues = append(p.DropValues, d.value)
		}
	}
	p.DropKinds = kinds.String()
}

func (s *statement) addWants() {
	for _, c := range s.batch {
		if c.want != nil {
			c.want.moveTo(s.holder)
			s.wants = append(s.wants, c)
		}
	}
	slices.SortStableFunc(s.wants, func(x, y *call) int {
		switch plain := x.want.plain(); {
		case plain == y.want.plain():
			return 0
		case plain:
			return -1
		}
		return 1
	})
	p := &s.params
	for _, c := range s.wants {
		w := c.want
		if w.plain() {
			p.Plain++
		}
		p.Spaces, p.Numbers = append(p.Spaces, int16(w.grant.key.Space)), append(p.Numbers, w.grant.key.Number)
		p.Shared, p.Waits = append(p.Shared, w.grant.shared), append(p.Waits, w.wait)
		p.Arrivals = append(p.Arrivals, w.arrival)
	}
}

// taken is the answer to a want.
type taken struct {
	letter byte
	value  int64 // the generation, or the arrival
	ahead  int64
	held   time.Duration
}

// takenBy returns the answer to the want at i. If all are granted there are no lists but that of the generations.
func takenBy(answer lockdb.CallLeasesRow, i int) taken {
	at := func(list []int64) int64 {
		if i < len(list) {
			return list[i]
		}
		return 0
	}
	return taken{
		letter: answer.Taken[i], value: at(answer.Results), ahead: at(answer.Ahead),
		held: time.Duration(at(answer.Held)) * time.Microsecond,
	}
}

// answer tells the calls their outcomes. The attempt stays in flight until all grants are known. A grant that comes when
// the holder is over is none.
func (b *backend) answer(s *statement, answer lockdb.CallLeasesRow) {
	outcomes := answer.Dropped
	grants := make([]*grant, 0, len(s.wants))
	for i, c := range s.wants {
		t := takenBy(answer, i)
		s.holder.took(c.want, t)
		if c.outcome = t.letter; c.outcome == granted {
			grants = append(grants, c.want.grant)
		}
	}
	lives := s.holder.add(grants)
	var late []*call
	answered := s.batch[:0]
	for _, c := range s.batch {
		n := len(c.drops)
		c.outcomes, outcomes = outcomes[:n], outcomes[n:]
		if c.want != nil && c.outcome == granted && !lives {
			c.want.holder = nil // what it has got is lost
			late = append(late, c)
		} else {
			answered = append(answered, c)
		}
	}
	s.holder.answered(s.params.Attempt)
	finishAll(answered, nil)
	b.again(late, errLate)
}
