package pglock

import (
	"context"
	"sync"
)

// notifications calls the log and Observers in the background, one call after another. No lock's end waits for them,
// however slow they are.
type notifications struct {
	mu    sync.Mutex
	queue []func()
	idle  chan struct{} // nil without calls; closed when all calls are over
}

func (n *notifications) add(call func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = append(n.queue, call)
	if n.idle == nil {
		n.idle = make(chan struct{})
		go n.run()
	}
}

func (n *notifications) run() {
	ended := false
	defer func() {
		if !ended { // an Observer has called runtime.Goexit; a panic ends the program
			go n.run()
		}
	}()
	for call := n.next(); call != nil; call = n.next() {
		call()
	}
	ended = true
}

func (n *notifications) next() (call func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == 0 {
		close(n.idle)
		n.queue, n.idle = nil, nil
		return nil
	}
	call, n.queue = n.queue[0], n.queue[1:]
	return call
}

// wait returns when all calls are over, or ctx has ended.
func (n *notifications) wait(ctx context.Context) {
	n.mu.Lock()
	idle := n.idle
	n.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
