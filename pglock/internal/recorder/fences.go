package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Fences draws fencing tokens, one draw at a time. A draw waits until its commit is durable, and so for as long as a
// synchronous standby does not answer. Callers that come meanwhile share the next draw.
type Fences struct {
	link   *link
	owners []string // roles that may own the schema
	trust  records.Trust
	life   context.Context // ends with Close
	end    context.CancelFunc

	mu    sync.Mutex
	next  *draw  // nil, or a draw that has not been sent, which further callers join
	leave string // the server that the next draw on it leaves for a new connection; "" if there is none
}

// Fence is a fencing token, and the server and database from which it is.
type Fence struct {
	Token  int64
	Server string
}

// draw is one transaction, with a token for each caller. A caller that does not wait for the end wastes its token.
type draw struct {
	callers int // that have joined, guarded by Fences.mu

	done chan struct{} // closed when the fields below have been set
	row  lockdb.DrawFencesRow
	err  error
}

// NewFences returns a Fences that has not dialled yet.
func NewFences(dialer *wire.Dialer, owners []string) *Fences {
	f := &Fences{link: newLink(dialer), owners: owners}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Draw returns a token that is larger than all that were returned before, to any process. It waits for as long as ctx
// allows. The server sends a token before it commits, so only the end of its answer, without a warning, makes it one.
//
// If there is no answer in time the connection may be dead, and Draw tries again on a new one. If it is the standby that
// does not answer, the new connection waits for it again. A caller whose ctx ends leaves the draw to itself: to cancel it
// at once would leave a hanging process on the server if the request came before the statement.
func (f *Fences) Draw(ctx context.Context) (Fence, error) {
	for {
		d, i := f.join()
		select {
		case <-d.done:
		case <-ctx.Done():
			return Fence{}, fmt.Errorf("%w: the server has not confirmed that the token is durable: %w", driver.ErrUnavailable,
				context.Cause(ctx))
		}
		switch {
		case d.err == nil:
			return Fence{d.row.Tokens[i], d.row.Server}, nil
		case !errors.Is(d.err, errSilent) || f.life.Err() != nil:
			return Fence{}, d.err
		}
	}
}

// join returns the next draw and the caller's place in it.
func (f *Fences) join() (d *draw, i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &draw{done: make(chan struct{})}
		go f.run(f.next)
	}
	f.next.callers++
	return f.next, f.next.callers - 1
}

// run sends the draw when those before it are over, and again, once, if the connection leads to a server that it is to
// leave, or to a schema that was replaced. A token that was not given away is only a gap.
func (f *Fences) run(d *draw) {
	defer close(d.done)
	defer f.seal(d) // it may not have come to be sent
	for range 2 {
		d.err = f.link.do(f.life, func(ctx context.Context, conn *pgx.Conn) error { return f.send(ctx, conn, d) })
		if !errors.Is(d.err, errLeave) && !errors.Is(d.err, trust.ErrReplaced) {
			return
		}
	}
}

func (f *Fences) send(ctx context.Context, conn *pgx.Conn, d *draw) (err error) {
	guarded := records.Guarded{DB: conn, Trust: &f.trust, Owners: f.owners}
	if d.row, err = guarded.Queries().DrawFences(ctx, f.seal(d)); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.row.Server == f.leave {
		f.leave = ""
		return errLeave
	}
	return nil
}

// seal lets no more callers join, and returns how many have.
func (f *Fences) seal(d *draw) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == d {
		f.next = nil
	}
	return int32(d.callers)
}

// Leave makes the next draw use a new connection if the present one still leads to server, which is not that of the
// caller's lock.
func (f *Fences) Leave(server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave = server
}

// Close gives up a draw that waits, and ends the connection.
func (f *Fences) Close() {
	f.end()
	f.link.close()
}

var errLeave = fmt.Errorf("%w: the connection leads to another server than the lock's", driver.ErrUnavailable)
