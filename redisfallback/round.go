package redisfallback

import (
	"context"
	"sync"
	"time"
)

// tally counts what the nodes answered to one question.
type tally struct {
	nodes   []*node
	quorum  int
	yes, no int
	failed  int
	votes   []vote // by node
	only    [1]vote
}

// vote is what became of a node's answer.
type vote struct {
	heard bool
	err   error
}

func (b *Backend) newTally() *tally {
	t := &tally{nodes: b.nodes, quorum: b.quorum}
	if t.votes = t.only[:]; len(b.nodes) > 1 {
		t.votes = make([]vote, len(b.nodes))
	}
	return t
}

// count adds the answer of node i.
func (t *tally) count(i int, yes bool, err error) {
	t.votes[i] = vote{true, err}
	switch {
	case err != nil:
		t.failed++
	case yes:
		t.yes++
	default:
		t.no++
	}
}

// hasQuorum tells whether a quorum said yes.
func (t *tally) hasQuorum() bool { return t.yes >= t.quorum }

// refused tells whether a quorum answered, and yes is out of reach.
func (t *tally) refused() bool {
	return t.no > len(t.nodes)-t.quorum || t.over() && !t.hasQuorum() && t.yes+t.no >= t.quorum
}

// quorumImpossible tells whether too many nodes failed for any answer.
func (t *tally) quorumImpossible() bool { return t.failed > len(t.nodes)-t.quorum }

func (t *tally) over() bool { return t.yes+t.no+t.failed == len(t.nodes) }

// decided tells whether the answers still to come can change nothing.
func (t *tally) decided() bool {
	return t.over() || t.hasQuorum() || t.refused() || t.quorumImpossible()
}

// expire counts the nodes that have not answered as failed.
func (t *tally) expire() {
	for i, vote := range t.votes {
		if !vote.heard {
			t.count(i, false, errNoAnswer)
		}
	}
}

// round puts calls[i] to nodes[i] and waits until the answer of all together is decided, for as long as a node may
// take, or until ctx ends, whose cause it returns then. Calls that have not been answered go on.
func (b *Backend) round(ctx context.Context, calls []call) (*tally, error) {
	return b.roundUntil(ctx, calls, (*tally).decided)
}

// roundUntil is round with another end.
func (b *Backend) roundUntil(ctx context.Context, calls []call, done func(*tally) bool) (*tally, error) {
	if !b.redlock() {
		return b.roundOfOne(ctx, &calls[0])
	}
	type answer struct {
		node int
		yes  bool
		err  error
	}
	answers := make(chan answer, len(calls))
	for i := range calls {
		calls[i].then = func(c *call) {
			yes, err := c.said()
			answers <- answer{i, yes, err}
		}
		b.nodes[i].submit(&calls[i])
	}
	timer := time.NewTimer(b.timeout)
	defer timer.Stop()
	t := b.newTally()
	for !done(t) {
		select {
		case a := <-answers:
			t.count(a.node, a.yes, a.err)
		case <-timer.C:
			b.abandon(t, calls)
			t.expire()
		case <-ctx.Done():
			b.abandon(t, calls)
			return t, context.Cause(ctx)
		}
	}
	b.abandon(t, calls)
	return t, nil
}

// abandon tells the nodes that have not been heard that their answers are not waited for.
func (b *Backend) abandon(t *tally, calls []call) {
	for i, vote := range t.votes {
		if !vote.heard {
			b.nodes[i].abandon(&calls[i])
		}
	}
}

// roundOfOne is a round of the only node.
func (b *Backend) roundOfOne(ctx context.Context, c *call) (*tally, error) {
	t := b.newTally()
	switch carried, left := b.nodes[0].carry(ctx, c); {
	case left:
		return t, context.Cause(ctx)
	case carried:
		t.countCall(c)
		return t, nil
	}
	w := bells.Get().(*bell)
	c.done = w.rung
	b.nodes[0].submit(c)
	w.timer.Reset(b.timeout)
	select {
	case <-w.rung:
		w.timer.Stop()
		bells.Put(w) // nobody else will ring it
		t.countCall(c)
	case <-w.timer.C:
		t.expire()
	case <-ctx.Done():
		w.timer.Stop()
		return t, context.Cause(ctx)
	}
	return t, nil
}

func (t *tally) countCall(c *call) {
	yes, err := c.said()
	t.count(0, yes, err)
}

// bell is what somebody waits with for an answer.
type bell struct {
	rung  chan struct{}
	timer *time.Timer
}

// bells are used again: making them would be a good part of the work of a call.
var bells = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &bell{make(chan struct{}, 1), timer}
}}

// result is nil when the nodes said yes, and otherwise an error that matches no, or ErrUnavailable.
func (t *tally) result(no error) error {
	switch {
	case t.hasQuorum():
		return nil
	case t.refused():
		return no
	}
	return t.unavailable()
}

// drop keeps calls that have not been sent from being sent.
func drop(calls []call) {
	for i := range calls {
		calls[i].dropped.Store(true)
	}
}
