package redisfallback

import (
	"context"
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
	return t.gone() || t.over() && !t.hasQuorum() && t.yes+t.no >= t.quorum
}

// gone reports whether no quorum has the lock, whatever the nodes know that have failed: it may have been taken on any quorum.
func (t *tally) gone() bool { return t.no > len(t.nodes)-t.quorum }

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

// round sends calls[i] to nodes[i] and waits until the result is decided, but not longer than a node may take. If ctx
// ends first, round returns its cause. Unanswered calls continue.
func (b *backend) round(ctx context.Context, calls []call) (*tally, error) {
	return b.roundUntil(ctx, calls, (*tally).decided)
}

// roundUntil is round with another condition to stop at.
func (b *backend) roundUntil(ctx context.Context, calls []call, done func(*tally) bool) (*tally, error) {
	answered := make(chan int, len(calls))
	for i := range calls {
		calls[i].then = func(*call) { answered <- i }
		b.nodes[i].submit(&calls[i])
	}
	timer := time.NewTimer(b.timeout)
	defer timer.Stop()
	t := b.newTally()
	for !done(t) {
		select {
		case i := <-answered:
			yes, err := calls[i].said()
			t.count(i, yes, err)
		case <-timer.C:
			t.expire()
		case <-ctx.Done():
			return t, context.Cause(ctx)
		}
	}
	return t, nil
}
