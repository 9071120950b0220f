package recorder

import (
	"context"
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/internal/combine"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
)

// Fences draws fencing tokens, one draw at a time. A draw waits until its commit is durable, and so for as long as a
// synchronous standby does not answer. Callers that come meanwhile share the next draw.
type Fences struct {
	link    *link.Link
	life    context.Context // ends with Close
	end     context.CancelFunc
	callers *combine.Queue[*draw]
}

// Fence is a fencing token, and the server and database from which it is.
type Fence struct {
	Token  int64
	Server string
}

// draw is what one caller asks for. A caller that does not wait for the end wastes its token.
type draw struct {
	done  chan struct{} // closed when the fields below have been set
	fence Fence
	err   error
}

// NewFences returns a Fences that has not dialled yet.
func NewFences(c link.Config) (*Fences, error) {
	c.Connections = 1
	l, err := link.New(c)
	f := &Fences{link: l}
	f.life, f.end = context.WithCancel(context.Background())
	f.callers = &combine.Queue[*draw]{Send: f.drawAll}
	return f, err
}

// Draw returns a token that is larger than all that were returned before, to any process. It waits for as long as ctx
// allows. The server sends a token before it commits, so only the end of its answer, without a warning, makes it one.
//
// If there is no answer in time the connection may be dead, and Draw tries again on a new one. If it is the standby that
// does not answer, the new connection waits for it again. A caller whose ctx ends leaves the draw to itself: to cancel it
// at once would leave a hanging process on the server if the request came before the statement.
func (f *Fences) Draw(ctx context.Context) (Fence, error) {
	for {
		d := &draw{done: make(chan struct{})}
		f.callers.Add(d)
		select {
		case <-d.done:
		case <-ctx.Done():
			f.callers.Withdraw(d) // if it was sent, its token is only a gap
			return Fence{}, fmt.Errorf("%w: the server has not confirmed that the token is durable: %w", driver.ErrUnavailable,
				context.Cause(ctx))
		}
		if !errors.Is(d.err, link.ErrSilent) || f.life.Err() != nil {
			return d.fence, d.err
		}
	}
}

// drawAll draws a token for each caller.
func (f *Fences) drawAll(callers []*draw) {
	row, err := link.Ask(f.life, f.link, func(ctx context.Context, q *lockdb.Queries) (lockdb.DrawFencesRow, error) {
		return q.DrawFences(ctx, int32(len(callers)))
	})
	for i, d := range callers {
		if d.err = err; err == nil {
			d.fence = Fence{row.Tokens[i], row.Server}
		}
		close(d.done)
	}
}

// Leave ends the connection: it leads to another server than the lock's.
func (f *Fences) Leave() { f.link.Reset() }

// Close gives up a draw that waits, and ends the connection.
func (f *Fences) Close(ctx context.Context) {
	f.end()
	f.link.Close(ctx)
}
