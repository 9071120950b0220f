package wire

import (
	"io"
	"net"
	"testing"
)

// A watched connection tells each time that it was armed that there is something to read, and nothing of it is lost; with a
// descriptor and without.
func TestWatchTellsWhenThereIsSomethingToRead(t *testing.T) {
	for name, connect := range map[string]func(*testing.T) (client, server net.Conn){
		"with a descriptor": overTCP, "without a descriptor": overPipe,
	} {
		t.Run(name, func(t *testing.T) {
			watcher, err := NewWatcher()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = watcher.Close() }()
			conn, server := connect(t)
			client := Watchable(conn)
			watch, told := watcher.watch(client), make(chan struct{}, 10)
			watch.Notify(func() { told <- struct{}{} })
			for range 3 {
				watch.Arm()
				send(t, server)
				<-told
				watch.Disarm()
				receive(t, client)
			}
			watch.Arm()
			watch.Disarm() // the session is used
			send(t, server)
			receive(t, client)
			if len(told) > 0 {
				t.Error("it told of what came while it was disarmed")
			}
			send(t, server)
			watch.Arm() // what is there already counts
			<-told
			watch.Disarm()
			receive(t, client)
			watch.Arm()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			<-told // the end of the stream
			watch.Forget()
		})
	}
}

func overTCP(t *testing.T) (client, server net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if client, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, server
}

func overPipe(*testing.T) (client, server net.Conn) { return net.Pipe() }

// send sends a byte. A pipe waits until it is read.
func send(t *testing.T, conn net.Conn) {
	go func() {
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}()
}

func receive(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}
