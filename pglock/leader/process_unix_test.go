//go:build unix

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
)

const (
	processVariable = "PGLOCK_LEADER_TEST_DATABASE"
	faultLease      = time.Second
	partitionFor    = 2 * faultLease
)

var electionKey = pglock.NewKey("election")

// runProcess is a process of the fault test: a candidate that writes guarded rows while it leads. It prints when it
// begins to lead and at which times its context was alive. SIGUSR1 cuts it off from the server for a while.
func runProcess(database string) {
	var net partition
	cut := make(chan os.Signal, 1)
	signal.Notify(cut, syscall.SIGUSR1)
	go func() {
		for range cut {
			net.cut(partitionFor)
		}
	}()
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		log.Fatal(err)
	}
	config.ConnConfig.DialFunc = net.dial
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	l, err := pglock.New(pool, pglock.WithLease(faultLease))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(leader.Run(context.Background(), l, electionKey, func(ctx context.Context, lock *pglock.Lock) error {
		fmt.Printf("leads %d %s\n", time.Now().UnixNano(), lock.Token())
		go watch(ctx)
		for ctx.Err() == nil {
			switch err := write(ctx, pool, lock); {
			case err == nil:
				fmt.Println("wrote")
			case errors.Is(err, pglock.ErrLost):
				return err
			}
		}
		return nil
	}, leader.Backoff(10*time.Millisecond, 200*time.Millisecond)))
}

// watch prints when ctx was alive. It reads the clock before it checks ctx.
func watch(ctx context.Context) {
	for {
		now := time.Now().UnixNano()
		if ctx.Err() != nil {
			return
		}
		fmt.Printf("alive %d\n", now)
		time.Sleep(time.Millisecond)
	}
}

// write writes a row about the term in a guarded transaction.
func write(ctx context.Context, pool *pgxpool.Pool, lock *pglock.Lock) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := lock.GuardTx(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "insert into writes (term) values ($1)", lock.Token())
		return err
	})
}

// partition is a network that drops everything for a while.
type partition struct {
	mu    sync.Mutex
	until time.Time
}

func (p *partition) cut(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(d)
}

// left is how much longer the partition lasts.
func (p *partition) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until)
}

func (p *partition) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d := p.left(); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return nil, errors.New("no route to host")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, network: p}, nil
}

// cutConn drops what is written during a partition for good, as if TCP had given up.
type cutConn struct {
	net.Conn
	network *partition

	mu   sync.Mutex
	lost bool
}

func (c *cutConn) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = c.lost || c.network.left() > 0
	return c.lost
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.isLost() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.isLost() {
		return n, err
	}
	for err == nil { // what has arrived is lost, and so is what arrives later
		_, err = c.Conn.Read(b)
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return 0, err
	}
	time.Sleep(c.network.left()) // the end of the other side is not noticed either
	return 0, err
}
