package pglock_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// cutter is a proxy that parses the messages of PostgreSQL's protocol
// (https://www.postgresql.org/docs/current/protocol-message-formats.html). After arm it cuts the network in the middle
// of the next large message to the server: one half arrives, and nothing after that, in either direction.
type cutter struct {
	*testenv.Link
	happened chan struct{} // closed by the cut

	mu    sync.Mutex
	armed bool
}

// newCutter returns a cutter and a configuration that connects through it, without TLS, so that it can see the
// messages.
func newCutter(t *testing.T, db *testenv.DB) (*cutter, *pgxpool.Config) {
	t.Helper()
	link, cfg := newProxy(t, db)
	cfg.ConnConfig.TLSConfig = nil
	s := &cutter{Link: link, happened: make(chan struct{})}
	link.ForwardUp(s.passMessages)
	return s, cfg
}

func (s *cutter) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = true
}

// passMessages copies messages until the source ends. Those that arrived together stay together: a statement is several
// messages, which share a segment while they are small. The first message has no type before its length.
func (s *cutter) passMessages(to, from net.Conn) {
	var together []byte
	for reader, headSize := bufio.NewReaderSize(from, 1<<16), 4; ; headSize = 5 {
		message, err := readMessage(reader, headSize)
		if err != nil {
			if !s.IsCutUp() {
				_ = to.Close()
			}
			return
		}
		together = append(together, message...)
		if len(message) < largeMessage && reader.Buffered() > 0 {
			continue
		}
		if _, err := to.Write(s.arriving(together, len(message))); err != nil {
			return
		}
		together = together[:0]
	}
}

func readMessage(from io.Reader, headSize int) ([]byte, error) {
	head := make([]byte, headSize)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[headSize-4:])-4)
	_, err := io.ReadFull(from, body)
	return append(head, body...), err
}

// arriving returns the part of messages that is passed on. The last message has size bytes.
func (s *cutter) arriving(messages []byte, size int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.IsCutUp():
		return nil
	case !s.armed || size < largeMessage:
		return messages
	}
	s.armed = false
	s.Cut(true, true)
	close(s.happened)
	return messages[:len(messages)-size/2]
}

// largeMessage is more than a TCP segment of the usual 1,460 bytes. A message in one segment cannot arrive in part.
const largeMessage = 2000

// silentApplication names the sessions of Lockers that fall silent.
const silentApplication = "silent"

// openShortLeased opens a Locker with a lease of a second, which also gives up dialling after that time.
func openShortLeased(t *testing.T, cfg *pgxpool.Config) *pglock.Locker {
	t.Helper()
	cfg.ConnConfig.ConnectTimeout = time.Second
	l, err := pglock.NewWithConfig(cfg, pglock.WithLease(time.Second), pglock.WithMaxHeld(10_000),
		pglock.WithApplicationName(silentApplication))
	must.Succeed(t, err)
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	testenv.WaitUntil(t, "it is connected within its second, however busy the machine is", func() bool { return l.Ping(t.Context()) == nil })
	return l
}

// holdOnWaitSessions gets locks that had to be waited for, each on a separate session.
func holdOnWaitSessions(t *testing.T, db *testenv.DB, l *pglock.Locker, keys []pglock.Key) (locks []*pglock.Lock) {
	t.Helper()
	before := db.Connect(t)
	plainLock(t, before, keys...)
	var waiters []<-chan *pglock.Lock
	for _, key := range keys {
		waiters = append(waiters, lockLater(t, l, key, pglock.RetryUnavailable(time.Minute))) // however busy the machine is
	}
	db.WaitForWaiters(t, len(keys))
	plainUnlock(t, before, keys...)
	for _, waiter := range waiters {
		for lock := range waiter {
			locks = append(locks, lock)
		}
	}
	return locks
}
