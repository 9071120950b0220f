package redisfallback

import (
	"context"
	"sync"
	"time"
)

// patience is a context that ends after a time, for one round trip: connecting and waiting for a connection, which the
// client's own timeouts bound too late, end with it. One that has not ended can be used again, which those of package
// context cannot.
type patience struct {
	context.Context
	over  chan struct{}
	timer *time.Timer
}

var patiences = sync.Pool{New: func() any {
	p := &patience{Context: context.Background(), over: make(chan struct{})}
	p.timer = time.AfterFunc(time.Hour, func() { close(p.over) })
	p.timer.Stop()
	return p
}}

// patienceFor returns a context that ends after d. It is done with when its round trip is.
func patienceFor(d time.Duration) *patience {
	p := patiences.Get().(*patience)
	p.timer.Reset(d)
	return p
}

// done gives the context back.
func (p *patience) done() {
	if p.timer.Stop() {
		patiences.Put(p)
	}
}

// Done implements [context.Context].
func (p *patience) Done() <-chan struct{} { return p.over }

// Err implements [context.Context]. It is not the error of a context that ended for a caller's sake.
func (p *patience) Err() error {
	select {
	case <-p.over:
		return errSilent
	default:
		return nil
	}
}
