package delay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// echo is a server that sends back what it gets.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, err := io.Copy(conn, conn)
				if err = errors.Join(err, conn.Close()); err != nil {
					t.Errorf("echo: %v", err)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestEverythingArrivesInOrderBeforeTheConnectionIsClosed(t *testing.T) {
	line := New(200 * time.Microsecond)
	defer line.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := line.Dial(ctx, "tcp", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var sent []byte
	for i := range 1000 {
		message := bytes.Repeat([]byte{byte(i)}, i%50+1)
		sent = append(sent, message...)
		if n, err := conn.Write(message); n != len(message) || err != nil {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(message), err)
		}
		clear(message) // the buffer belongs to the caller again
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("what came back is not what was sent")
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(got); err == nil {
		t.Error("there is something to read from a closed connection")
	}
}

func TestAFailedDeliveryIsAnErrorOfALaterWrite(t *testing.T) {
	line := New(0)
	defer line.Close()
	conn, err := line.Dial(t.Context(), "tcp", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); {
		_, err = conn.Write([]byte("x"))
	}
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing to a closed connection for a minute: %v", err)
	}
}
