package locktest

import (
	"context"
	"errors"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// backend is one client of a Server.
type backend struct {
	server      *Server
	application string
}

// Start implements [driver.Backend].
func (b *backend) Start(driver.Config) error { return nil }

// Configure implements [hooks.PostgresOptions].
func (b *backend) Configure(c hooks.PostgresConfig, _ []string) (refused []string) {
	b.application = c.Application
	return nil
}

// Place implements [hooks.Placed].
func (b *backend) Place(driver.Grant) any { return b.server }

// Ping implements [driver.Backend].
func (*backend) Ping(ctx context.Context) error { return context.Cause(ctx) }

// Close implements [driver.Backend].
func (*backend) Close(context.Context) error { return nil }

// Acquire implements [driver.Backend]. If it returns an error, the request neither holds nor waits.
func (b *backend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	s, g := b.server, &grant{request: r, application: b.application, ready: make(chan struct{})}
	s.mu.Lock()
	granted := s.add(g)
	if !granted && !r.Wait {
		s.remove(g)
	}
	s.mu.Unlock()
	switch {
	case granted:
		return g, nil
	case !r.Wait:
		return nil, driver.ErrNotAcquired
	}
	select {
	case <-g.ready:
		return g, nil
	case <-ctx.Done():
		// A grant that has come meanwhile is given back: both are decided under mu.
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(g)
		return nil, context.Cause(ctx)
	}
}

// Release implements [driver.Backend].
func (b *backend) Release(_ context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	if !b.server.remove(g) {
		return driver.ErrLost
	}
	return nil
}

// Check implements [driver.Backend].
func (b *backend) Check(ctx context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err == nil {
		err = context.Cause(ctx)
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
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	holders := []driver.Holder{}
	for _, g := range b.server.granted {
		if g.has(key.KeyID) {
			holders = append(holders, driver.Holder{
				Shared: g.request.Shared, Token: g.request.Token.String(), Application: g.application,
			})
		}
	}
	return holders, nil
}

// Fence implements [driver.Fencer].
func (b *backend) Fence(ctx context.Context, grants []driver.Grant) (int64, error) {
	for _, g := range grants {
		if err := b.Check(ctx, g); err != nil {
			return 0, err
		}
	}
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	b.server.fence++
	return b.server.fence, nil
}

func ours(held driver.Grant) (*grant, error) {
	if g, ok := held.(*grant); ok {
		return g, nil
	}
	return nil, errors.New("a grant of another backend")
}
