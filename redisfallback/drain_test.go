package redisfallback

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// TestCallsBeginWhileTheNodeIsDrained: Close gives up when its context ends, and callers continue.
func TestCallsBeginWhileTheNodeIsDrained(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: testenv.NewRedis(t).Addr()})
	n := newNode(client, false)
	n.timeout = time.Minute
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for _, directly := range []bool{true, false} {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				done := make(chan struct{}, 1)
				if c := ping(done); !directly {
					n.submit(c)
					<-done
				} else if _, left := n.sendDirectly(context.Background(), c); left {
					t.Error("a caller left")
				}
			}
		})
	}
	for range 2000 {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Microsecond)
		n.drain(ctx)
		cancel()
	}
	close(stop)
	callers.Wait()
	n.drain(context.Background())
	if err := errors.Join(n.closeDirects(), client.Close()); err != nil {
		t.Error(err)
	}
}

func TestConnectionOfACallThatOutlastsCloseIsClosed(t *testing.T) {
	var callers sync.WaitGroup
	n, release := slowNode(t, 1, true, func(n *node, c *call) {
		callers.Go(func() { n.sendDirectly(context.Background(), c) })
	})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	n.drain(ended)
	if err := n.closeDirects(); err != nil {
		t.Error(err)
	}
	release()
	callers.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.directs) > 0 {
		t.Errorf("%d connections are kept", len(n.directs))
	}
}

// TestCallThatWasNotSentIsNotWaitedFor: the caller left behind the handshake.
func TestCallThatWasNotSentIsNotWaitedFor(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // the test is over
	for _, sent := range []bool{false, true} {
		ours, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c := &directConn{Conn: ours, of: &direct{}}
		exchange(t, c, server, "HELLO")
		exchange(t, server, c, "OK")
		if sent {
			exchange(t, c, server, "SET")
		}
		c.leave()
		settled := make(chan struct{})
		go func() {
			defer close(settled)
			c.settle(time.Hour)
		}()
		if sent {
			if _, err := server.Write([]byte("OK")); err != nil {
				t.Error(err)
			}
		}
		if err := server.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Error(err)
		}
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !sent {
			t.Errorf("the connection is not closed: %v", err)
		}
		_ = server.Close() // ends settle in any case
		<-settled
	}
}

func exchange(t *testing.T, from, to net.Conn, text string) {
	if _, err := from.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(to, make([]byte, len(text))); err != nil {
		t.Fatal(err)
	}
}

func TestLockThatIsGrantedAfterCloseIsReleased(t *testing.T) {
	server := testenv.NewRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}()
	key := func(name string) driver.Key {
		return driver.Key{KeyID: driver.KeyID{Space: driver.SpaceBigint}, Name: name, Named: true}
	}
	for _, keys := range [][]driver.Key{{key("a")}, {key("a"), key("b")}} {
		b := newBackend([]redis.UniversalClient{client}, options{prefix: DefaultKeyPrefix})
		if err := b.Start(driver.Config{Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := driver.Request{Keys: keys, Token: driver.Token{Text: "AAAAAAAAAAAAAAAAAAAAAAAAAA-", Number: 1}, LossHandler: unlost{t}}
		if _, err := b.Acquire(t.Context(), r); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%d keys: the error is %v, want ErrClosed", len(keys), err)
		}
		if left := server.Must(t, "DBSIZE"); left != "0" {
			t.Errorf("%d keys: %s keys are left", len(keys), left)
		}
	}
}

type unlost struct{ *testing.T }

// Lost implements [driver.LossHandler].
func (t unlost) Lost(_ driver.LostReason, err error) { t.Errorf("the lock was lost: %v", err) }
