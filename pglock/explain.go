package pglock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// explain makes the error of a failed acquisition. Only now does it ask the server for the holders.
func (l *Locker) explain(ctx context.Context, r *request, err error, waited time.Duration) error {
	key, more, keys := Key{k: r.keys[0]}, len(r.keys)-1, publicKeys(r.keys)
	bounded := errors.Is(err, errMaxWait)
	ended := isEndOf(ctx, err)
	switch {
	case errors.Is(err, ErrClosed) && !isUnsettled(err):
		return failed("lock", key, more, ErrClosed)
	case r.try && errors.Is(err, hooks.ErrQueued):
		return &WaitError{Keys: keys, ahead: "a process that is ahead"}
	case r.try && errors.Is(err, ErrNotAcquired):
		return &WaitError{Keys: keys}
	case errors.Is(err, ErrNotAcquired): // the wait was cancelled on the server
		return &WaitError{Keys: keys, Waited: waited, Err: err}
	case r.try || errors.Is(err, ErrUnavailable) || !bounded && !ended:
		return failed("lock", key, more, err)
	}
	wait := &WaitError{Keys: keys, Waited: waited}
	if !bounded {
		wait.Err = contextError(ctx, err)
	}
	if !errors.Is(wait.Err, context.Canceled) { // a caller that cancelled does not need them
		wait.Holders, wait.ahead = l.whoIsAhead(r.keys[r.at:], ended && !bounded)
	}
	return wait
}

// isUnsettled reports whether the server may still grant the request whose error err is, or hold a key for it. So it must match
// ErrUnavailable.
func isUnsettled(err error) bool {
	_, unsettled := errors.AsType[*driver.UnsettledError](err)
	return unsettled || errors.Is(err, errNotGivenBack)
}

// isEndOf reports whether err is that of ctx, which has ended.
func isEndOf(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// contextError makes sure that a cause of the caller's own also matches the context's error. errMaxWait is ours, and stays alone.
func contextError(ctx context.Context, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) && !errors.Is(err, errMaxWait) {
		return fmt.Errorf("%w: %w", ctxErr, err)
	}
	return err
}

func (l *Locker) whoHolds(keys []driver.Key, ended bool) []Holder {
	holders, _ := l.whoIsAhead(keys, ended)
	return holders
}

// whoIsAhead returns the holders of the first of keys that has any, or else who is the first in the queue of one; none
// if the server does not answer soon. Calls that want to know at about the same time share one question, since many
// waits may end together. After the end of a context they do not wait long for the answer.
func (l *Locker) whoIsAhead(keys []driver.Key, ended bool) (holders []Holder, ahead string) {
	within := holdersWithin
	if ended {
		within = holdersAtEnd
	}
	over := time.NewTimer(within)
	defer over.Stop()
	for _, key := range keys {
		q := l.question(key)
		select {
		case <-q.answered:
		case <-over.C:
			return nil, ahead
		}
		if len(q.holders) > 0 {
			return slices.Clone(q.holders), ""
		}
		ahead = cmp.Or(ahead, q.ahead)
	}
	return nil, ahead
}

// question is one for the holders of a key, until some time after its answer.
type question struct {
	answered chan struct{}
	holders  []Holder
	ahead    string // who is the first in the queue, if no holder was found
}

// question returns the question for the holders of key, and asks it if no call has just done so.
func (l *Locker) question(key driver.Key) *question {
	id := l.identityOf(key)
	asked, other := l.questions.LoadOrStore(id, &question{answered: make(chan struct{})})
	q := asked.(*question)
	if !other {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), holdersWithin)
			defer cancel()
			q.holders, _ = l.holders(ctx, key)
			if queue, ok := l.backend.(hooks.Queue); ok && len(q.holders) == 0 {
				if first, _ := queue.FirstInLine(ctx, key); first != nil {
					q.ahead = holderText(*first)
				}
			}
			close(q.answered)
			time.AfterFunc(answerLasts, func() { l.questions.Delete(id) })
		}()
	}
	return q
}

const (
	holdersWithin = time.Second
	holdersAtEnd  = 80 * time.Millisecond
	answerLasts   = 100 * time.Millisecond
)

// errMaxWait is the cause of a context that MaxWait has ended.
var errMaxWait = errors.New("MaxWait has passed")
