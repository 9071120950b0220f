// Package delay simulates a network: it delays what a client sends, so that a round trip takes that much longer. It
// needs no privileges and no process in between, whose work would count as the network's: a message costs a copy and a
// share of one more goroutine, and no additional system calls.
//
// It is made for requests that fit into the buffers of a socket. It does not delay what the server sends: a client
// that waits for an answer cannot tell in which direction the time was lost.
package delay

import (
	"context"
	"net"
	"sync"
	"time"
)

// Line is a network. Its connections may be used concurrently, like those of package net.
type Line struct {
	delay  time.Duration
	dialer net.Dialer
	done   chan struct{}

	mu     sync.Mutex
	filled sync.Cond
	queue  []message // in flight, in the order of sending: all take the same time
	closed bool
}

// message is data in flight; without data it is the end of the connection.
type message struct {
	due  time.Time
	conn *conn
	data []byte
}

// New returns a network on which a round trip takes longer by d. Close must be called after its connections are
// closed.
func New(d time.Duration) *Line {
	l := &Line{delay: d, done: make(chan struct{})}
	l.filled.L = &l.mu
	go l.deliver()
	return l
}

// Dial connects to address, as [net.Dialer.DialContext] does.
func (l *Line) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	inner, err := l.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, line: l}, nil
}

// Close waits until everything in flight has arrived.
func (l *Line) Close() {
	l.mu.Lock()
	l.closed = true
	l.filled.Signal()
	l.mu.Unlock()
	<-l.done
}

func (l *Line) send(c *conn, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, message{due: time.Now().Add(l.delay), conn: c, data: data})
	if len(l.queue) == 1 {
		l.filled.Signal()
	}
}

// deliver delivers the messages when they are due.
func (l *Line) deliver() {
	defer close(l.done)
	var arriving []message
	for {
		due, ok := l.next()
		if !ok {
			return
		}
		sleepUntil(due)
		arriving = l.take(arriving[:0], time.Now())
		for i, m := range arriving {
			m.conn.arrive(m.data)
			arriving[i] = message{}
		}
	}
}

// next waits until a message is in flight, and returns when it is due.
func (l *Line) next() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		if l.closed {
			return time.Time{}, false
		}
		l.filled.Wait()
	}
	return l.queue[0].due, true
}

// take moves the messages that are due from the queue to the end of to.
func (l *Line) take(to []message, now time.Time) []message {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.queue) && !l.queue[n].due.After(now) {
		n++
	}
	to = append(to, l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return to
}

// conn is one end of a connection over the line.
type conn struct {
	net.Conn
	line *Line

	mu  sync.Mutex
	err error // error of an earlier write
}

// Write returns at once. An error at the arrival of the data is returned by the next Write.
func (c *conn) Write(data []byte) (int, error) {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	c.line.send(c, append([]byte(nil), data...))
	return len(data), nil
}

// Close closes the connection after everything in flight has arrived.
func (c *conn) Close() error {
	c.line.send(c, nil)
	return nil
}

func (c *conn) arrive(data []byte) {
	var err error
	if data == nil {
		err = c.Conn.Close()
	} else {
		_, err = c.Conn.Write(data)
	}
	if err != nil {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}
}
