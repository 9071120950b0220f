package rowlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/combine"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// newCalls returns the queue of what goroutines ask for at the same time: it goes to the server in one statement and one
// commit.
func newCalls(b *backend) *combine.Queue[*call] {
	return &combine.Queue[*call]{
		Send: b.send, Run: b.background.run,
		Senders: maxSenders, Few: fewCalls, Most: maxItems, Weight: (*call).items,
	}
}

const (
	maxSenders = 2
	maxItems   = 1024 // of a statement
	fewCalls   = 64   // one statement carries so many, whatever else is under way
)

// call is what one goroutine asks for: to drop things of a holder, or to take a want.
type call struct {
	holder *holder // of the drops, or nil
	drops  []drop
	want   *want

	tries    int
	ticket   int32         // of the want, in the statement under way
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

// want is a set of keys that is taken as a whole.
type want struct {
	grant   *grant // that it becomes
	wait    bool
	arrival int64   // in the queue of the server; 0: it is not there
	holder  *holder // whose arrival that is

	look // what is known of the lock while it is waited for
}

// The letters of pglock.lease_call, and the outcomes with which it does nothing.
const (
	granted = 'g' // of a want
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

func (c *call) items() int {
	if c.want != nil {
		return len(c.want.grant.keys)
	}
	return len(c.drops)
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
	var results []int64
	err = b.calls.do(ctx, func(ctx context.Context, q *lockdb.Queries) (err error) {
		if answer, err = q.CallLeases(ctx, s.params); err == nil {
			results, err = numbersOf(answer.Results)
		}
		return err
	})
	switch {
	case isUnknown(err):
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
		b.answer(s, answer, results)
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
	wants  []*call // those of them that want something, in the order of their tickets
	params lockdb.CallLeasesParams
}

// item is a key of a want, with its call.
type item struct {
	key  driver.KeyID
	call *call
}

// rank is 0 for exclusive wants of one key that are not in the queue, which pglock.lease_call has first, and 1 for all
// others.
func (it item) rank() int {
	if w := it.call.want; w.grant.shared || len(w.grant.keys) > 1 || w.arrival != 0 {
		return 1
	}
	return 0
}

func newStatement(h *holder, batch []*call) *statement {
	s := &statement{holder: h, batch: batch, params: lockdb.CallLeasesParams{Holder: h.id, Attempt: h.nextAttempt()}}
	s.addDrops()
	s.addWants()
	return s
}

func (s *statement) addDrops() {
	var kinds strings.Builder
	var spaces, numbers, values list
	for _, c := range s.batch {
		for _, d := range c.drops {
			kinds.WriteString(d.kind)
			spaces.add(int64(d.key.Space))
			numbers.add(d.key.Number)
			values.add(d.value)
		}
	}
	p := &s.params
	p.DropKinds, p.DropSpaces, p.DropNumbers, p.DropValues = kinds.String(), spaces.String(), numbers.String(), values.String()
}

func (s *statement) addWants() {
	var tickets, spaces, numbers, shared, waits, arrivals list
	for _, it := range s.items() {
		w := it.call.want
		if it.call.ticket == 0 {
			s.wants = append(s.wants, it.call)
			it.call.ticket = int32(len(s.wants))
		}
		s.params.Plain += int32(1 - it.rank())
		tickets.add(int64(it.call.ticket))
		spaces.add(int64(it.key.Space))
		numbers.add(it.key.Number)
		shared.addBool(w.grant.shared)
		waits.addBool(w.wait)
		arrivals.add(w.arrival)
	}
	p := &s.params
	p.Tickets, p.Spaces, p.Numbers = tickets.String(), spaces.String(), numbers.String()
	p.Shared, p.Waits, p.Arrivals = shared.String(), waits.String(), arrivals.String()
}

// items returns the keys of the wants in the order in which they are taken.
func (s *statement) items() []item {
	items := make([]item, 0, len(s.batch))
	for _, c := range s.batch {
		if c.want == nil {
			continue
		}
		c.ticket = 0
		if c.want.holder != s.holder {
			c.want.holder, c.want.arrival = s.holder, 0
		}
		for _, key := range c.want.grant.keys {
			items = append(items, item{key, c})
		}
	}
	slices.SortFunc(items, func(x, y item) int { return cmp.Or(cmp.Compare(x.rank(), y.rank()), x.key.Compare(y.key)) })
	return items
}

// answer tells the calls their outcomes. The attempt stays in flight until all grants are known. A grant that comes when
// the holder is over is none.
func (b *backend) answer(s *statement, answer lockdb.CallLeasesRow, results []int64) {
	grants := make([]*grant, 0, len(s.wants))
	for i, c := range s.wants {
		c.outcome = answer.Taken[i]
		if c.outcome == granted {
			c.want.grant.holder, c.want.grant.generation = s.holder, results[i]
			grants = append(grants, c.want.grant)
		} else if c.want.wait {
			c.want.arrival = results[i]
			s.holder.queue(c.want)
		}
	}
	lives := s.holder.add(grants)
	outcomes := answer.Dropped
	var late []*call
	answered := s.batch[:0]
	for _, c := range s.batch {
		n := len(c.drops)
		c.outcomes, outcomes = outcomes[:n], outcomes[n:]
		if c.want != nil && c.outcome == granted && !lives {
			late = append(late, c)
		} else {
			answered = append(answered, c)
		}
	}
	s.holder.answered(s.params.Attempt)
	finishAll(answered, nil)
	b.again(late, errLate)
}
