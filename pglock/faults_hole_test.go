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

// Verify of many keys is a large statement too. If only a part of it arrives, the server must still end the session in
// time, or the locks stay held until the failure is noticed.
func TestFaultsAQuestionThatArrivesInPartDoesNotKeepTheLocks(t *testing.T) {
	t.Parallel()
	for name, waited := range map[string]bool{"on a mux session": false, "on a wait session": true} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			proxy, config := newCutter(t, db)
			check := newExclusionCheck(noticeBefore)
			silent, next := openShortLeased(t, config), openLocker(t, db)
			keys := faultKeys(500)
			last := keys[0]
			for _, key := range keys {
				if key.Int64() > last.Int64() {
					last = key
				}
			}
			lock := lockAllOf(t, db, silent, keys, last, waited)
			check.enter(t, lock, false)
			proxy.arm()
			verified := make(chan error)
			go func() { verified <- lock.Verify(minuteContext(t)) }()
			awaitDone(t, proxy.happened, "the question")
			awaitDone(t, lock.Done(), "the end of a lock that is not watched, while Verify gets no answer")
			after, err := next.LockAll(minuteContext(t), keys, pglock.RetryUnavailable(time.Minute)) // to connect takes long on a busy machine
			must.Succeed(t, err)
			check.unlock(t, check.enter(t, after, false))
			wantLost(t, <-verified, pglock.LostLease)
			proxy.Cut(false, false)
		})
	}
}

// lockAllOf takes all keys as one lock. If waited is set, it has to wait for the last of them.
func lockAllOf(t *testing.T, db *testenv.DB, l *pglock.Locker, keys []pglock.Key, last pglock.Key, waited bool) *pglock.Lock {
	t.Helper()
	before := db.Connect(t)
	if waited {
		plainLock(t, before, last)
	}
	got := make(chan *pglock.Lock)
	go func() {
		lock, err := l.LockAll(minuteContext(t), keys)
		if err != nil {
			t.Error(err)
		}
		got <- lock
	}()
	if waited {
		db.WaitForWaiters(t, 1)
		plainUnlock(t, before, last)
	}
	lock := <-got
	if lock == nil {
		t.FailNow()
	}
	return lock
}
