package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// This file is about who waits for an answer, and for how long.
//
// Nearly every answer comes sooner than a context ends. To wait for both is dear, most of all for goroutines whose
// contexts have one parent: each locks the channel of all of them twice. So a caller waits for the answer alone, until
// patrol, which looks at all who wait every few milliseconds, sees him for the second time.

// await waits for the answer to a. A caller whose ctx ends takes a back if nobody has sent it; what has been sent will
// be answered soon, and leaving would mean not to know: so ctx is followed only after a while, and then a lock that
// still comes is given back.
func (l *lanes) await(ctx context.Context, a *ask, leads *mainSession) error {
	if a.awaitAnswer(leads) || awaitAnswerUntil(a, ctx.Done()) {
		return a.err
	}
	l.mu.Lock()
	if a.state == pending {
		a.decline()
		l.withdraw(a)
		err := l.whyPending()
		l.mu.Unlock()
		if err == nil || errors.Is(ctx.Err(), context.Canceled) {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w: %w", driver.ErrUnavailable, err, context.Cause(ctx))
	}
	l.mu.Unlock()
	if err := l.awaitLonger(a); err != errNoAnswer {
		return err
	}
	return fmt.Errorf("%w: %w: %w", driver.ErrUnavailable, errNoAnswer, context.Cause(ctx))
}

// awaitLonger waits a while for the answer to a, and then abandons it.
func (l *lanes) awaitLonger(a *ask) error {
	timer := time.NewTimer(answerPatience)
	defer timer.Stop()
	if awaitAnswerUntil(a, timer.C) {
		return a.err
	}
	l.mu.Lock()
	if a.state == answered { // just then
		l.mu.Unlock()
		a.awaitAnswer(nil)
		return a.err
	}
	a.decline()
	a.state = abandoned
	l.mu.Unlock()
	return errNoAnswer
}

// awaitAnswer waits for the answer, and reports false when that takes so long that the caller should look at his context
// too; for a release, which does not follow a context, never.
func (a *ask) awaitAnswer(leads *mainSession) bool {
	for leads == nil || !leads.lead(a) {
		switch leads = <-a.caller.wake; leads {
		case nil:
			return true
		case overdue:
			return false
		}
	}
	return true
}

// awaitAnswerUntil waits for the answer, and reports false when end has come first.
func awaitAnswerUntil[T any](a *ask, end <-chan T) bool {
	for {
		select {
		case leads := <-a.caller.wake:
			if leads == nil || leads.lead(a) {
				return true
			}
		case <-end:
			return false
		}
	}
}

// overdue is what patrol sends, once, and again only to who could do nothing about it. It is sent under lanes.mu to a caller
// whose channel is empty and whose ask has no answer, so the answer always comes after it; and who has got it, and waits
// for ctx or longer, does not get it any more.
var overdue = &mainSession{}

// expectPatrol sees to it that patrol runs. It runs under mu.
func (l *lanes) expectPatrol() {
	if l.patrolling {
		return
	}
	l.patrolling = true
	if l.patrols == nil {
		l.patrols = time.AfterFunc(patrolEvery, l.patrol)
	} else {
		l.patrols.Reset(patrolEvery)
	}
}

// patrol tells those who have waited for long to look at their contexts too.
func (l *lanes) patrol() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.patrolling = false
	if l.busy == 0 {
		return
	}
	l.expectPatrol()
	lookAt(l.pending)
	for _, s := range l.open {
		for _, st := range s.inFlight {
			lookAt(st.asks)
		}
	}
}

// lookAt tells the callers of those asks that have been seen before.
func lookAt(asks []*ask) {
	for _, a := range asks {
		waits := !a.release && a.caller != nil && a.state <= sent && len(a.caller.wake) == 0
		if !waits || a.looks == looksEnough {
			continue
		}
		if a.looks++; a.looks == looksEnough {
			a.caller.wake <- overdue
		}
	}
}

// overlook is for a caller who was told when he could do nothing about it.
func (l *lanes) overlook(a *ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.looks = 0
}

const (
	patrolEvery    = 5 * time.Millisecond
	looksEnough    = 2 // so that nobody is told who has just come
	answerPatience = time.Second
)
