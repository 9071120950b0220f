package pglock_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
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

// A busy process with many locks falls silent. Each lock has ended before another session gets it. When the network is
// back the Locker works again.
func TestLongFaultsManySilentHoldersAreToldBeforeTheNextGrants(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(t *testing.T, s *cutter, sendLarge func()){
		"both":          func(_ *testing.T, s *cutter, _ func()) { s.Cut(true, true) },
		"to the server": func(_ *testing.T, s *cutter, _ func()) { s.Cut(true, false) },
		"to the client": func(_ *testing.T, s *cutter, _ func()) { s.Cut(false, true) },
		"in the middle of a batch": func(t *testing.T, s *cutter, sendLarge func()) {
			s.arm()
			sendLarge()
			awaitDone(t, s.happened, "a large statement")
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range testenv.Trials(t, 1) {
				fallSilent(t, cut)
			}
		})
	}
}

func fallSilent(t *testing.T, cut func(t *testing.T, s *cutter, sendLarge func())) {
	db := testenv.Database(t)
	proxy, config := newCutter(t, db)
	check, silent := newExclusionCheck(noticeBefore), openShortLeased(t, config)
	next := openLocker(t, db)
	keys, busyKeys := faultKeys(500)[:104], faultKeys(500)[104:]
	locks := append(holdOnWaitSessions(t, db, silent, keys[:4]), holdOnMainSessions(t, silent, keys[4:])...)
	works := make([]context.Context, len(locks))
	for i, lock := range locks {
		check.enter(t, lock, false)
		works[i] = lock.Context(t.Context())
	}
	stop := keepBusy(t, 300, []*pglock.Locker{silent}, func(ctx context.Context, l *pglock.Locker) { tryRandom(ctx, t, check, l, busyKeys) })
	testenv.WaitUntil(t, "the workers are busy", func() bool { return check.count() > len(locks)+1000 })
	var granted sync.WaitGroup
	cut(t, proxy, func() {
		granted.Go(func() { // the locks of single keys fit one segment
			lock, err := silent.TryLockAll(minuteContext(t), faultKeys(1000)[500:])
			if err == nil {
				t.Errorf("%v was granted, although the statement had not arrived", lock)
			} else if !plausible(err, pglock.ErrNotAcquired) {
				t.Errorf("TryLockAll: %v", err)
			}
		})
	})

	for i, lock := range locks {
		granted.Go(func() {
			after, err := next.Lock(minuteContext(t), lock.Key())
			if err != nil {
				t.Error(err)
				return
			}
			if works[i].Err() == nil {
				t.Errorf("the context of %s had not ended when the next holder got it", lock.Key())
			}
			check.unlock(t, check.enter(t, after, false))
		})
	}
	granted.Wait()
	for i, lock := range locks {
		awaitDone(t, lock.Done(), "the end of a lock that is not watched")
		awaitDone(t, works[i].Done(), "the end of work under a lock that is not watched")
		wantLost(t, lock.Unlock(t.Context()), pglock.LostLease)
	}
	stop()
	proxy.Cut(false, false)
	for _, key := range keys { // on a busy machine a lease of a second may expire again
		testenv.WaitUntil(t, "the Locker works again", func() bool {
			lock, err := silent.TryLock(minuteContext(t), key)
			return err == nil && lock.Unlock(t.Context()) == nil
		})
	}
	wantWorking(t, keys, next)
	wantQuiet(t, db, silent, next)
}

// silentApplication names the sessions of Lockers that fall silent.
const silentApplication = "silent"

// openShortLeased opens a Locker with a lease of a second, which also gives up dialling after that time.
func openShortLeased(t *testing.T, cfg *pgxpool.Config) *pglock.Locker {
	t.Helper()
	cfg.ConnConfig.ConnectTimeout = time.Second
	l, err := pglock.NewWithConfig(cfg, pglock.WithLease(time.Second), pglock.WithMaxHeld(10_000),
		pglock.WithApplicationName(silentApplication))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	testenv.WaitUntil(t, "it is connected within its second, however busy the machine is", func() bool { return l.Ping(t.Context()) == nil })
	return l
}

func holdOnMainSessions(t *testing.T, l *pglock.Locker, keys []pglock.Key) (locks []*pglock.Lock) {
	t.Helper()
	for _, key := range keys {
		locks = append(locks, mustLock(t, l, key))
	}
	return locks
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

// tryRandom tries to lock a random key, which is usually free.
func tryRandom(ctx context.Context, t *testing.T, check *exclusionCheck, l *pglock.Locker, keys []pglock.Key) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lock, err := l.TryLock(ctx, some(keys, 1)[0])
	if err == nil {
		check.unlock(t, check.enter(t, lock, false))
	} else if !plausible(err, pglock.ErrNotAcquired) {
		t.Errorf("TryLock: %v", err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
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
