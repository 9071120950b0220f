package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// backend is one client of a Server.
type backend struct {
	server *Server
	env    driver.Config
	cut    bool // it is cut off from the server
}

// Start implements [driver.Backend].
func (b *backend) Start(env driver.Config) error {
	if env.Lease == 0 {
		env.Lease = defaultLease
	}
	b.env = env
	return nil
}

const defaultLease = 15 * time.Second

// reach fails when the server cannot be reached.
func (b *backend) reach(ctx context.Context) error {
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	if b.cut {
		return errCut
	}
	return context.Cause(ctx)
}

var errCut = fmt.Errorf("%w: the test has cut it off", driver.ErrUnavailable)

// Ping implements [driver.Backend].
func (b *backend) Ping(ctx context.Context) error { return b.reach(ctx) }

// Close implements [driver.Backend].
func (*backend) Close(context.Context) error { return nil }

// Acquire implements [driver.Backend].
func (b *backend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g := &grant{request: r, client: b, ready: make(chan struct{}), cut: make(chan struct{})}
	g.request.Keys = slices.Clone(r.Keys)
	if err := b.server.acquire(ctx, g, r.Wait); err != nil {
		return nil, err
	}
	return g, nil
}

// acquire grants g. If it returns an error, g neither holds nor waits.
func (s *Server) acquire(ctx context.Context, g *grant, wait bool) error {
	s.mu.Lock()
	if g.client != nil && g.client.cut {
		s.mu.Unlock()
		return errCut
	}
	granted := s.add(g)
	if !granted && !wait {
		s.remove(g)
	}
	s.mu.Unlock()
	switch {
	case granted:
		return nil
	case !wait:
		return driver.ErrNotAcquired
	}
	var err error
	select {
	case <-g.ready:
		return nil
	case <-g.cut:
		err = errCut
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	// A grant that has come meanwhile is given back: both are decided under mu.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(g)
	return err
}

// Release implements [driver.Backend].
func (b *backend) Release(_ context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	if b.cut {
		g.gone = true
		return errCut
	}
	if !b.server.remove(g) {
		return driver.ErrLost
	}
	return nil
}

// Check implements [driver.Backend].
func (b *backend) Check(ctx context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err == nil {
		err = b.reach(ctx)
	}
	if err != nil {
		return err
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	if !slices.Contains(b.server.granted, g) {
		return driver.ErrLost
	}
	return nil
}

// Holders implements [driver.Backend].
func (b *backend) Holders(ctx context.Context, key driver.Key) ([]driver.Holder, error) {
	if err := b.reach(ctx); err != nil {
		return nil, err
	}
	return b.server.holders(key), nil
}

func (s *Server) holders(key driver.Key) []driver.Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	holders := []driver.Holder{}
	for _, g := range s.granted {
		if !g.has(key.KeyID) {
			continue
		}
		h := driver.Holder{Shared: g.request.Shared, Token: g.request.Token.String()}
		if g.client != nil {
			h.Application = g.client.env.Application
		}
		holders = append(holders, h)
	}
	return holders
}

// Fence implements [driver.Fencer].
func (b *backend) Fence(ctx context.Context, held driver.Grant) (int64, error) {
	if err := b.Check(ctx, held); err != nil {
		return 0, err
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	b.server.fence++
	return b.server.fence, nil
}

// SameServer implements [txlock.Backend].
func (b *backend) SameServer(_ context.Context, tx pgx.Tx, held driver.Grant) (bool, error) {
	g, err := ours(held)
	if err != nil {
		return false, err
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	t, ok := tx.(*Tx)
	return ok && t.server == b.server && slices.Contains(b.server.granted, g), nil
}

func ours(held driver.Grant) (*grant, error) {
	if g, ok := held.(*grant); ok {
		return g, nil
	}
	return nil, errors.New("a grant of another backend")
}
