package redisfallback

import (
	"context"
	"sync"
	"time"
)

// pooledTimeout is a context that ends after a time, for one round trip. It also bounds dialling and waiting for a
// connection, which the client's own timeouts bound too late. Unlike contexts of package context it can be reused if it
// has not ended.
type pooledTimeout struct {
	context.Context
	over  chan struct{}
	timer *time.Timer
}

var timeouts = sync.Pool{New: func() any {
	p := &pooledTimeout{Context: context.Background(), over: make(chan struct{})}
	p.timer = time.AfterFunc(time.Hour, func() { close(p.over) })
	p.timer.Stop()
	return p
}}

// timeoutAfter returns a context that ends after d. The caller must call done after the round trip.
func timeoutAfter(d time.Duration) *pooledTimeout {
	p := timeouts.Get().(*pooledTimeout)
	p.timer.Reset(d)
	return p
}

// interrupt ends the context early.
func (p *pooledTimeout) interrupt() {
	if p.timer.Stop() {
		close(p.over)
	}
}

// done returns the context to the pool.
func (p *pooledTimeout) done() {
	if p.timer.Stop() {
		timeouts.Put(p)
	}
}

// Done implements [context.Context].
func (p *pooledTimeout) Done() <-chan struct{} { return p.over }

// Err implements [context.Context]. Its error differs from that of a caller's context.
func (p *pooledTimeout) Err() error {
	select {
	case <-p.over:
		return errNoAnswer
	default:
		return nil
	}
}
