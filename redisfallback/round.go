package redisfallback

import (
	"context"
	"sync"
	"time"
)

// tally counts the nodes' answers in one round.
type tally struct {
	nodes   []*node
	quorum  int
	yes, no int
	failed  int
	votes   []vote // by node
	only    [1]vote
}

// vote is the state of a node's answer.
type vote struct {
	heard bool
	err   error
}

func (b *backend) newTally() *tally {
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

// hasQuorum reports whether a quorum said yes.
func (t *tally) hasQuorum() bool { return t.yes >= t.quorum }

// refused reports whether a quorum answered and yes is out of reach.
func (t *tally) refused() bool {
	return t.no > len(t.nodes)-t.quorum || t.over() && !t.hasQuorum() && t.yes+t.no >= t.quorum
}

// quorumImpossible reports whether too many nodes failed for any answer.
func (t *tally) quorumImpossible() bool { return t.failed > len(t.nodes)-t.quorum }

func (t *tally) over() bool { return t.yes+t.no+t.failed == len(t.nodes) }

// decided reports whether the missing answers can change nothing.
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

// round sends calls[i] to nodes[i] and waits until the result is decided, but not longer than a node may take. If ctx
// ends first, round returns its cause. Unanswered calls continue.
func (b *backend) round(ctx context.Context, calls []call) (*tally, error) {
	return b.roundUntil(ctx, calls, (*tally).decided)
}

// roundUntil is round with another condition to stop at.
func (b *backend) roundUntil(ctx context.Context, calls []call, done func(*tally) bool) (*tally, error) {
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

// abandon records that the missing answers have no caller any more.
func (b *backend) abandon(t *tally, calls []call) {
	for i, vote := range t.votes {
		if !vote.heard {
			b.nodes[i].abandon(&calls[i])
		}
	}
}

// roundOfOne is a round with a single node.
func (b *backend) roundOfOne(ctx context.Context, c *call) (*tally, error) {
	t := b.newTally()
	switch sent, left := b.nodes[0].sendDirectly(ctx, c); {
	case left:
		return t, context.Cause(ctx)
	case sent:
		t.countCall(c)
		return t, nil
	}
	w := waits.Get().(*pooledWait)
	c.done = w.done
	b.nodes[0].submit(c)
	w.timer.Reset(b.timeout)
	select {
	case <-w.done:
		w.timer.Stop()
		waits.Put(w) // no call refers to it any more
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

// pooledWait is what a caller waits for an answer with.
type pooledWait struct {
	done  chan struct{}
	timer *time.Timer
}

// waits are reused: making them would be a large part of the work of a call.
var waits = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &pooledWait{make(chan struct{}, 1), timer}
}}

// result returns nil if a quorum said yes, no if it was refused, and else an error that matches ErrUnavailable or ErrDenied.
func (t *tally) result(no error) error {
	switch {
	case t.hasQuorum():
		return nil
	case t.refused():
		return no
	}
	return t.unavailable()
}

// drop prevents calls that have not been sent from being sent.
func drop(calls []call) {
	for i := range calls {
		calls[i].dropped.Store(true)
	}
}
