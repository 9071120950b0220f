package leader

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/mark"
)

// Run campaigns until ctx ends: it waits for the lock, calls lead, unlocks when lead has returned, and campaigns again
// after a pause (see [WithBackoff]), so that another process gets its turn. It does so whatever ended the term: lead
// returned, with or without an error, the lock was lost, or [Elector.Resign] was called. It waits for an unreachable
// server in the same way.
//
// The context of lead ends with ctx, with the lock, or with Resign; its cause says which. lead should return then: the
// lock is kept until it does. Writes to the database that must not be stale belong in transactions that lock.GuardTx
// guards. If lead panics or calls [runtime.Goexit], the lock is unlocked and the panic
// or exit continues.
//
// An Elector without [WithEvents] logs two kinds of problems as warnings: that the server cannot be asked (it is
// unreachable, or the password is wrong), once per outage, and that a term ended with an error. It uses the logger of
// [pglock.WithLogger], or else [slog.Default].
//
// Run returns the cause of ctx's end, which is never nil. It returns earlier only with an error that trying again
// cannot resolve: one that matches [pglock.ErrClosed], [pglock.ErrInvalidKey], [pglock.ErrUnsupported],
// [pglock.ErrPooler] or [pglock.ErrDeadlock], or [ErrRunning] while another Run of e is running. The event [EventEnded]
// says what ended a term.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, lock *pglock.Lock) error) error {
	if lead == nil {
		return e.failed(errors.New("the function is nil"))
	}
	if err := e.start(); err != nil {
		return e.failed(err)
	}
	defer e.stop()
	return e.campaigns(ctx, lead)
}

func (e *Elector) start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return ErrRunning
	}
	e.running = true
	return nil
}

func (e *Elector) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = false
}

// campaigns runs one campaign after another.
func (e *Elector) campaigns(ctx context.Context, lead func(context.Context, *pglock.Lock) error) error {
	p, out := pause{config: e.config}, false
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		began := driver.Now()
		t, err := e.campaign(ctx, lead)
		lasted := driver.Now().Sub(began)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case final(err) && (t == nil || errors.Is(err, pglock.ErrUnsupported)): // such as GuardTx on Redis
			return e.failed(err)
		case errors.Is(err, ErrResigned) || err == nil:
		case t == nil:
			if !out || lasted > reached {
				e.report(EventUnavailable, err)
				e.warn("cannot campaign to be the leader, and tries again", err)
			}
			out = true
		default:
			e.warn("the leader's term has ended with an error", err)
		}
		out = out && t == nil
		if err == nil || errors.Is(err, ErrResigned) || t != nil && driver.Now().Sub(t.since) > e.config.maxPause {
			p.reset()
		}
		p.sleep(ctx)
	}
}

// reached is how long a campaign lasts only if it has reached the server and waited there; if it fails after that, it
// is another outage.
const reached = time.Minute

// final reports whether a campaign that failed with err would fail again and again.
func final(err error) bool {
	for _, sentinel := range []error{pglock.ErrClosed, pglock.ErrInvalidKey, pglock.ErrUnsupported, pglock.ErrPooler, pglock.ErrDeadlock} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// campaign waits for the lock and leads. It returns the term, if there was one, and why the term or the campaign
// ended.
func (e *Elector) campaign(ctx context.Context, lead func(context.Context, *pglock.Lock) error) (*term, error) {
	// The mark says of the wait, and then of the term, what it is for.
	m := mark.Begin(ctx, e.locker, lockkeys.LeaderMark, pglock.Use{Kind: hooks.UseLeaderMark, Key: e.key})
	defer m.Unlock(ctx)
	lock, err := e.locker.Lock(ctx, e.key, hooks.WithUse(pglock.Use{Kind: pglock.UseLeader, Key: e.key}).(pglock.LockOption))
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // it ended just as the lock was granted
		return nil, errors.Join(context.Cause(ctx), lock.Unlock(ctx))
	}
	m.Now()
	t := e.begin(ctx, lock)
	defer t.withdraw(nil)
	return t, e.serve(t, lead)
}

// pause is how long to wait before the next campaign.
type pause struct {
	config config
	next   time.Duration
}

func (p *pause) reset() { p.next = 0 }

// sleep waits for the next pause or the end of ctx. The jitter keeps processes that failed together from coming back
// together.
func (p *pause) sleep(ctx context.Context) {
	if p.next == 0 {
		p.next = p.config.minPause
	}
	d := p.next/2 + mathrand.N(p.next/2+1)
	p.next = min(2*p.next, p.config.maxPause)
	timing.Sleep(ctx, d)
}

func (e *Elector) failed(err error) error {
	return fmt.Errorf("pglock/leader: run %s: %w", shorttext.Quote(e.key.String()), err)
}
