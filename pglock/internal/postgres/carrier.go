package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/waitsession"
)

// carrier is what holds a lock: a [mux.Grant], a [mux.Share], a [waitsession.Grant] or a [group].
type carrier interface {
	driver.Grant
	Release(context.Context) error
	Check(context.Context) error
	// Keys are what is held, and Shared how.
	Keys() []driver.KeyID
	Shared() bool
	// Sessions are those that hold it, one unless several keys are shared: fencing tokens and proofs are asked of them.
	Sessions() []*mux.Session
}

var (
	_ carrier = (*mux.Grant)(nil)
	_ carrier = (*mux.Share)(nil)
	_ carrier = (*waitsession.Grant)(nil)
	_ carrier = (*group)(nil)
)

// ours returns the carrier behind held.
func ours(held driver.Grant) (carrier, error) {
	if c, ok := held.(carrier); ok {
		return c, nil
	}
	return nil, fmt.Errorf("a grant of type %T is not of the PostgreSQL backend", held)
}

// group is several shared keys, each of which may be on another session, and be used by others too.
type group struct {
	owner driver.Owner

	mu    sync.Mutex
	parts []*mux.Share
	over  bool // lost, or released
}

// add adds a part, unless the group has been lost meanwhile; then the part is given back.
func (g *group) add(part *mux.Share) error {
	g.mu.Lock()
	over := g.over
	if !over {
		g.parts = append(g.parts, part)
	}
	g.mu.Unlock()
	if over {
		return onlyUnsettled(part.Release(context.Background()))
	}
	return nil
}

// takeParts ends the group, and returns its parts; ok is false when it had ended before.
func (g *group) takeParts() (parts []*mux.Share, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	parts, ok = g.parts, !g.over
	g.over = true
	return parts, ok
}

// Lost implements [driver.Owner] for the parts: with one of them the group is lost, and the others are given back.
func (g *group) Lost(why driver.Reason, err error) {
	parts, first := g.takeParts()
	if !first {
		return
	}
	g.owner.Lost(why, err)
	go func() { _ = releaseAll(parts) }() // those that are lost say so; the owner knows
}

// Release implements [carrier].
func (g *group) Release(context.Context) error {
	parts, ok := g.takeParts()
	if !ok {
		return driver.ErrLost
	}
	return releaseAll(parts)
}

// releaseAll gives parts back together.
func releaseAll(parts []*mux.Share) error {
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() { errs[i] = part.Release(context.Background()) })
	}
	all.Wait()
	return joinSettled(errs)
}

// onlyUnsettled is the error of a release of what nobody has had: that it was lost before is no loss.
func onlyUnsettled(err error) error {
	if open, ok := errors.AsType[*driver.Unsettled](err); ok {
		return open
	}
	return nil
}

// joinSettled joins errors; several that others hold keys are one. If some are unsettled so is the result, until all of those are settled.
func joinSettled(errs []error) error {
	var open []<-chan struct{}
	for _, err := range errs {
		if u, ok := errors.AsType[*driver.Unsettled](err); ok {
			open = append(open, u.Done)
		}
	}
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	err := errors.Join(errs...)
	switch {
	case len(errs) == 0:
		return nil
	case !slices.ContainsFunc(errs, func(err error) bool { return err != driver.ErrNotAcquired }):
		return driver.ErrNotAcquired
	case len(open) == 0:
		return err
	}
	done := make(chan struct{})
	go func() {
		for _, settled := range open {
			<-settled
		}
		close(done)
	}()
	return &driver.Unsettled{Err: err, Done: done}
}

// Check implements [carrier].
func (g *group) Check(ctx context.Context) error {
	for _, part := range g.parts {
		if err := part.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Deadline implements [driver.Grant].
func (g *group) Deadline() driver.Instant {
	first := driver.Never
	for _, part := range g.parts {
		first = min(first, part.Deadline())
	}
	return first
}

// Keys implements [carrier].
func (g *group) Keys() (keys []driver.KeyID) {
	for _, part := range g.parts {
		keys = append(keys, part.Keys()...)
	}
	return keys
}

// Shared implements [carrier].
func (g *group) Shared() bool { return true }

// Sessions implements [carrier].
func (g *group) Sessions() (sessions []*mux.Session) {
	seen := map[*mux.Session]bool{}
	for _, part := range g.parts {
		for _, s := range part.Sessions() {
			if !seen[s] {
				seen[s] = true
				sessions = append(sessions, s)
			}
		}
	}
	return sessions
}
