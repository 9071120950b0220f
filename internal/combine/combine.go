// Package combine lets goroutines that ask a server for something at the same time share one message to it.
package combine

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// Queue collects items and sends them in batches. Few batches are under way at a time: what is added meanwhile goes into
// the next ones, in the order in which it was added. Set the fields before the first use and not later.
//
// No wake-up is lost. A sender gives up its right to send only where it has seen that the queue is empty, and [Queue.Add]
// looks for a free right where it appends; both under mu. So an item that is added before that look is seen by the sender,
// which goes on, and for one that is added later Add finds the right free and starts a sender.
type Queue[T comparable] struct {
	// Send sends a batch and tells the items their answers. It may add items.
	Send func(batch []T)
	// Senders is how many batches may be under way at a time; at least one.
	Senders int
	// Most is how many items a batch has at most; 0 is no bound.
	Most int

	mu       sync.Mutex
	items    []T
	senders  int
	underWay int           // items
	idle     chan struct{} // closed when nothing is queued or under way; nil if no caller waits for that
}

// Add queues items, and starts a sender if one more may be under way.
func (q *Queue[T]) Add(items ...T) {
	q.mu.Lock()
	q.items = append(q.items, items...)
	start := q.senders < max(q.Senders, 1) && len(q.items) > 0
	if start {
		q.senders++
	}
	q.mu.Unlock()
	if start {
		go q.run()
	}
}

// Withdraw removes an item, and reports false if it is not queued any more: then it has been sent.
func (q *Queue[T]) Withdraw(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.items, item)
	if i >= 0 {
		q.items = slices.Delete(q.items, i, i+1)
	}
	return i >= 0
}

// Len returns how many items are queued, without those under way.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Wait waits until nothing is queued or under way, or ctx ends. Items may be added meanwhile.
func (q *Queue[T]) Wait(ctx context.Context) {
	q.mu.Lock()
	if q.senders == 0 {
		q.mu.Unlock()
		return
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	idle := q.idle
	q.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// run sends what is queued, until nothing is left.
func (q *Queue[T]) run() {
	for batch := q.next(); len(batch) > 0; batch = q.next() {
		q.Send(batch)
		q.sent(len(batch))
		q.gather()
	}
}

// gather lets goroutines that are about to add something run first, such as those that have just been answered. A round of
// the scheduler runs only some of them, so gather yields as long as the queue grows.
func (q *Queue[T]) gather() {
	for before := -1; ; {
		queued := q.Len()
		if queued <= before || q.Most > 0 && queued >= q.Most {
			return
		}
		before = queued
		runtime.Gosched()
	}
}

// next takes a share of the queue such that the batches under way are of one size: of a large one and a small one the small
// one would come and go many times with its few items. If there is nothing to take, the sender's right ends.
func (q *Queue[T]) next() (batch []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	senders := max(q.Senders, 1)
	n := min(len(q.items), (len(q.items)+q.underWay+senders-1)/senders)
	if q.Most > 0 {
		n = min(n, q.Most)
	}
	batch = slices.Clone(q.items[:n])
	q.items = slices.Delete(q.items, 0, n)
	q.underWay += n
	if n > 0 {
		return batch
	}
	q.senders--
	if q.senders == 0 && q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
	return nil
}

func (q *Queue[T]) sent(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.underWay -= n
}
