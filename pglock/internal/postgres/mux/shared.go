package mux

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// sharedKeys has the shared keys that the sessions hold, or have been asked to lock.
type sharedKeys struct {
	mu  sync.Mutex
	all map[driver.KeyID]*sharedKey
}

// sharedKey is a shared key that one session holds, once, for all its users in this process.
//
// A newcomer first tries to lock the key on another session, which does not hold it. The server refuses that try exactly
// when a writer holds the key or waits for it. If the try is granted, the newcomer joins the users of the key, and the
// other session releases its own lock. The newcomer is counted before it tries, so the key stays on its session meanwhile,
// and no writer can come between. If there is no other session, pg_locks is asked for a waiting writer.
type sharedKey struct {
	keys    *sharedKeys
	id      driver.KeyID
	grant   *Grant        // whose owner this is
	probing chan struct{} // has room while no newcomer asks

	// Under keys.mu:
	changing chan struct{} // closed when the key has been locked or is gone; nil while its session holds it
	users    int           // the shares, and callers that request one
	shares   []*Share      // the shares that hold it
	lost     bool
}

// Share is a use of a shared key.
type Share struct {
	key   *sharedKey
	owner driver.LossHandler
	over  bool // lost, or released; under sharedKeys.mu
}

// TryShared locks a key shared, without waiting for its holders.
func (m *Mux) TryShared(ctx context.Context, id driver.KeyID, owner driver.LossHandler) (*Share, error) {
	for {
		k, wait, first := m.keys.enter(id)
		var err error
		switch {
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			continue
		case first:
			err = m.lockShared(ctx, k)
		default:
			if err = m.join(ctx, k); err != nil {
				go func() { _, _ = k.leave() }() // if it is the last, the newcomer does not wait for the release
			}
		}
		if err != nil {
			return nil, err
		}
		if share := k.use(owner); share != nil {
			return share, nil // if it has been lost since, the owner has been notified
		}
	}
}

// enter counts a newcomer and returns its key; if first is set, the caller must lock the key. If the key is being locked or
// released, enter counts nothing and returns a channel to wait for.
func (keys *sharedKeys) enter(id driver.KeyID) (k *sharedKey, wait <-chan struct{}, first bool) {
	keys.mu.Lock()
	defer keys.mu.Unlock()
	k = keys.all[id]
	switch {
	case k == nil:
		k = &sharedKey{keys: keys, id: id, users: 1, changing: make(chan struct{}), probing: make(chan struct{}, 1)}
		k.grant = NewGrant(id, true, k)
		keys.all[id] = k
		return k, nil, true
	case k.changing != nil:
		return nil, k.changing, false
	}
	k.users++
	return k, nil, false
}

// lockShared locks a key that no session holds.
func (m *Mux) lockShared(ctx context.Context, k *sharedKey) error {
	err := m.Try(ctx, k.grant)
	if err == nil {
		k.keys.mu.Lock()
		defer k.keys.mu.Unlock()
		k.settleLocked()
		return nil
	}
	driver.WhenSettled(err, k.gone) // until then no other caller asks for it
	return err
}

// join asks whether a newcomer may use k. The newcomer has been counted.
func (m *Mux) join(ctx context.Context, k *sharedKey) error {
	select {
	case k.probing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	asked := func() { <-k.probing }
	home, open := k.grant.session, *m.open.Load()
	i := slices.IndexFunc(open, func(s *Session) bool { return s != home })
	if i < 0 {
		defer asked()
		return m.askForWriter(ctx, k)
	}
	probe := NewGrant(k.id, true, noOwner{})
	err := open[i].Try(ctx, probe)
	if err != nil {
		driver.WhenSettled(err, asked)
		return explain(ctx, err)
	}
	driver.WhenSettled(open[i].release(probe), asked) // however that ends, there was no writer
	return nil
}

// askForWriter is join without a second session.
func (m *Mux) askForWriter(ctx context.Context, k *sharedKey) error {
	if m.config.Sessions > 1 {
		m.dialMore()
	}
	s := k.grant.session
	value, _, err := s.Call(ctx, lockdb.WriterWaits, strconv.Itoa(int(k.id.Space)), strconv.FormatInt(k.id.Number, 10))
	switch {
	case err == nil && value == "t":
		return driver.ErrNotAcquired
	case errors.Is(err, errNoAnswer): // the question locks nothing, so it can be left unanswered
		return NothingDone(ctx, s.whySilent())
	}
	return explain(ctx, err)
}

// noOwner owns grants that are released at once.
type noOwner struct{}

func (noOwner) Lost(driver.LostReason, error) {}

// use returns the share of a newcomer, which has been counted; nil if the key has been lost meanwhile, and must be asked for again.
func (k *sharedKey) use(owner driver.LossHandler) *Share {
	k.keys.mu.Lock()
	defer k.keys.mu.Unlock()
	if k.lost {
		return nil
	}
	share := &Share{key: k, owner: owner}
	k.shares = append(k.shares, share)
	return share
}

// Lost implements [driver.LossHandler] for all users of the key.
func (k *sharedKey) Lost(why driver.LostReason, err error) {
	k.keys.mu.Lock()
	k.lost = true
	lost := k.shares
	k.shares = nil
	for _, share := range lost {
		share.over = true
	}
	k.goneLocked()
	k.keys.mu.Unlock()
	for _, share := range lost {
		share.owner.Lost(why, err)
	}
}

// leave counts one user fewer, and reports whether it was the last. Then the session releases the key, and no caller asks for
// the key until that is confirmed.
func (k *sharedKey) leave() (last bool, err error) {
	k.keys.mu.Lock()
	k.users--
	last = k.users == 0 && !k.lost
	if last {
		k.changing = make(chan struct{})
	}
	k.keys.mu.Unlock()
	if last {
		err = k.grant.session.release(k.grant)
		driver.WhenSettled(err, k.gone)
	}
	return last, err
}

// gone forgets a key that no session holds any more.
func (k *sharedKey) gone() {
	k.keys.mu.Lock()
	defer k.keys.mu.Unlock()
	k.goneLocked()
}

func (k *sharedKey) goneLocked() {
	if k.keys.all[k.id] == k {
		delete(k.keys.all, k.id)
	}
	k.settleLocked()
}

// settleLocked wakes the callers that wait for the key to be locked or released.
func (k *sharedKey) settleLocked() {
	if k.changing != nil {
		close(k.changing)
		k.changing = nil
	}
}

// Release ends the share. While others still use the key, no statement is sent whose answer would show that the session is
// alive, so Release sends a heartbeat.
func (s *Share) Release(context.Context) error {
	k := s.key
	k.keys.mu.Lock()
	over := s.over
	s.over = true
	k.shares = slices.DeleteFunc(k.shares, func(other *Share) bool { return other == s })
	k.keys.mu.Unlock()
	if over {
		return driver.ErrLost
	}
	if last, err := k.leave(); last {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), driver.ReleaseTimeout)
	defer cancel()
	_, err := k.grant.session.Ask(ctx, lockdb.Heartbeat)
	return err
}

// Check asks the server whether the key is held. If not, it is lost for all its users.
func (s *Share) Check(ctx context.Context) error {
	err := s.key.grant.Check(ctx)
	if errors.Is(err, driver.ErrLost) {
		s.key.Lost(driver.LostSession, err)
	}
	return err
}

// Deadline implements [driver.Grant].
func (s *Share) Deadline() driver.Instant { return s.key.grant.Deadline() }

// Session returns the session that holds the key.
func (s *Share) Session() *Session { return s.key.grant.session }

// Shared returns true.
func (s *Share) Shared() bool { return true }

// Key returns the key.
func (s *Share) Key() driver.KeyID { return s.key.id }
