package redisfallback

import (
	"context"
	"sync"
	"time"
)

// pooledTimeout is a context that ends after a time, for one round trip: connecting and waiting for a connection, which the
// client's own timeouts bound too late, end with it. One that has not ended can be used again, which those of package
// context cannot.
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

// timeoutAfter returns a context that ends after d. It is done with when its round trip is.
func timeoutAfter(d time.Duration) *pooledTimeout {
	p := timeouts.Get().(*pooledTimeout)
	p.timer.Reset(d)
	return p
}

// interrupt ends the context before its time.
func (p *pooledTimeout) interrupt() {
	if p.timer.Stop() {
		close(p.over)
	}
}

// done gives the context back.
func (p *pooledTimeout) done() {
	if p.timer.Stop() {
		timeouts.Put(p)
	}
}

// Done implements [context.Context].
func (p *pooledTimeout) Done() <-chan struct{} { return p.over }

// Err implements [context.Context]. It is not the error of a context that ended for a caller's sake.
func (p *pooledTimeout) Err() error {
	select {
	case <-p.over:
		return errNoAnswer
	default:
		return nil
	}
}
