package pglock

import (
	"context"
	"sync"
)

// news are calls of the log and of Observers in the background, one after the other: however slow they are, no lock's end
// waits for them.
type news struct {
	mu    sync.Mutex
	queue []func()
	idle  chan struct{} // nil while there is nothing to tell; closed when all has been told
}

func (n *news) add(tell func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = append(n.queue, tell)
	if n.idle == nil {
		n.idle = make(chan struct{})
		go n.run()
	}
}

func (n *news) run() {
	ended := false
	defer func() {
		if !ended { // an Observer has ended its goroutine; a panic ends the program
			go n.run()
		}
	}()
	for tell := n.next(); tell != nil; tell = n.next() {
		tell()
	}
	ended = true
}

func (n *news) next() (tell func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == 0 {
		close(n.idle)
		n.queue, n.idle = nil, nil
		return nil
	}
	tell, n.queue = n.queue[0], n.queue[1:]
	return tell
}

// wait returns when all has been told, or ctx has ended.
func (n *news) wait(ctx context.Context) {
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
