package main

import (
	"context"
	"net"
	"sync/atomic"
)

// dialFunc is how pgx dials.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// tripCounter counts round trips: answers that begin after something was sent. It is for a connection that one
// goroutine uses.
type tripCounter struct{ trips atomic.Int64 }

func (t *tripCounter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, trips: &t.trips}, nil
}

type countedConn struct {
	net.Conn
	trips *atomic.Int64
	asked atomic.Bool
}

func (c *countedConn) Write(data []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(data)
}

func (c *countedConn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if n > 0 && c.asked.Swap(false) {
		c.trips.Add(1)
	}
	return n, err
}
