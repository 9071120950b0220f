package places

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// dialed is a connection's two ends.
type dialed struct{ client, server net.Conn }

func (d dialed) closed(t *testing.T) bool {
	t.Helper()
	_, err := d.server.Write([]byte("x"))
	return errors.Is(err, net.ErrClosed)
}

func TestANewConnectionTakesThePlaceOfTheOldestThatIsNotKept(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	l := Limit(inner, 3)
	dial := func() dialed {
		client, err := net.Dial("tcp", inner.Addr().String())
		must.Succeed(t, err)
		server, err := l.Accept()
		must.Succeed(t, err)
		t.Cleanup(func() { _, _ = client.Close(), server.Close() }) // they may be closed
		return dialed{client, server}
	}
	first, second, third := dial(), dial(), dial()
	release := Keep(Context(context.Background(), first.server))
	fourth := dial()
	if first.closed(t) || !second.closed(t) || third.closed(t) || fourth.closed(t) {
		t.Error("it is not the second that was closed")
	}
	if _, err := io.ReadAll(second.client); err != nil {
		t.Errorf("its client reads %v, want the end", err)
	}
	Keep(Context(context.Background(), third.server))
	Keep(Context(context.Background(), fourth.server))
	fifth := dial()
	if !first.closed(t) || third.closed(t) {
		t.Error("with all kept it is not the oldest that was closed")
	}
	release()
	release()
	must.Succeed(t, third.server.Close())
	sixth := dial()
	if fourth.closed(t) || fifth.closed(t) || sixth.closed(t) {
		t.Error("the place of a connection that ended was not free")
	}
	must.Succeed(t, inner.Close())
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
}
