package mux

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
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

// Share is a use of shared keys, each of which may be on a different session.
type Share struct {
	owner driver.LossHandler

	// Under sharedKeys.mu:
	keys []*sharedKey
	over bool // lost, or released
}

// TryShared locks keys shared, all or none, without waiting for their holders. It asks for all of them at the same time, so
// that the sessions can combine them into a few statements.
func (m *Mux) TryShared(ctx context.Context, keys []driver.Key, owner driver.LossHandler) (*Share, error) {
	share := &Share{owner: owner}
	err := together(keys, func(key driver.Key) error { return m.tryShared(ctx, key.KeyID, share) })
	if err == nil {
		return share, nil // if it has been lost since, the owner has been notified
	}
	if held, ok := m.keys.end(share); ok {
		err = joinSettled([]error{err, together(held, (*sharedKey).drop)})
	}
	return nil, err
}

// together calls do for all elements of the list at the same time.
func together[T any](list []T, do func(T) error) error {
	if len(list) == 1 {
		return do(list[0])
	}
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, x := range list {
		all.Go(func() { errs[i] = do(x) })
	}
	all.Wait()
	return joinSettled(errs)
}

// tryShared adds a key to a share.
func (m *Mux) tryShared(ctx context.Context, id driver.KeyID, share *Share) error {
	for {
		k, wait, first := m.keys.enter(id)
		var err error
		switch {
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		case first:
			err = m.lockShared(ctx, k)
		default:
			if err = m.join(ctx, k); err != nil {
				_ = k.drop() // whether the key's last release fails does not concern the newcomer
			}
		}
		if err == nil {
			added, again := k.addTo(share)
			if !added {
				err = k.drop()
			}
			if again && err == nil {
				continue
			}
		}
		return err
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
		k.grant = NewGrant([]driver.Key{{KeyID: id}}, true, k)
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
	WhenSettled(err, k.gone) // until then no other caller asks for it
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
	probe := NewGrant([]driver.Key{{KeyID: k.id}}, true, noOwner{})
	err := open[i].Try(ctx, probe)
	if err != nil {
		WhenSettled(err, asked)
		return explain(ctx, err)
	}
	WhenSettled(open[i].release(probe), asked) // however that ends, there was no writer
	return nil
}

// askForWriter is join without a second session.
func (m *Mux) askForWriter(ctx context.Context, k *sharedKey) error {
	if m.config.Sessions > 1 {
		m.dialMore()
	}
	s := k.grant.session
	value, _, err := s.Call(ctx, lockdb.WriterWaits,
		wire.ArrayText([]int64{k.id.Number}), wire.ArrayText([]int16{int16(k.id.Space)}))
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

// addTo adds k to the share of a newcomer that has been counted, unless the share has ended, or the key has been lost
// meanwhile: then the newcomer must ask for it again.
func (k *sharedKey) addTo(share *Share) (added, again bool) {
	k.keys.mu.Lock()
	defer k.keys.mu.Unlock()
	if added = !share.over && !k.lost; added {
		share.keys, k.shares = append(share.keys, k), append(k.shares, share)
	}
	return added, !share.over && k.lost
}

// Lost implements [driver.LossHandler] for all users of the key.
func (k *sharedKey) Lost(why driver.LostReason, err error) {
	k.keys.mu.Lock()
	k.lost = true
	shares := slices.Clone(k.shares)
	k.goneLocked()
	k.keys.mu.Unlock()
	for _, share := range shares {
		if held, first := k.keys.end(share); first {
			share.owner.Lost(why, err)
			go func() { _ = together(held, (*sharedKey).drop) }() // the other keys are given back
		}
	}
}

// end ends a share, and returns its keys, which the caller must leave; ok is false if the share had ended before.
func (keys *sharedKeys) end(share *Share) (held []*sharedKey, ok bool) {
	keys.mu.Lock()
	defer keys.mu.Unlock()
	if share.over {
		return nil, false
	}
	share.over = true
	for _, k := range share.keys {
		k.shares = slices.DeleteFunc(k.shares, func(other *Share) bool { return other == share })
	}
	return share.keys, true
}

// leave counts one user fewer. After the last one the session releases the key, and no caller asks for the key until that
// is confirmed.
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
		WhenSettled(err, k.gone)
	}
	return last, err
}

// drop is leave for a user that never had the key, or has lost it.
func (k *sharedKey) drop() error {
	_, err := k.leave()
	return onlyUnsettled(err)
}

// release is leave for a user that had the key until now. While others still use the key, no statement is sent whose answer
// would show that the session is alive, so release sends a heartbeat.
func (k *sharedKey) release() error {
	last, err := k.leave()
	if last {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), driver.ReleaseTimeout)
	defer cancel()
	_, err = k.grant.session.Ask(ctx, lockdb.Heartbeat)
	return err
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

// Release ends the share.
func (s *Share) Release(context.Context) error {
	if len(s.keys) == 0 { // lost before it had one
		return driver.ErrLost
	}
	held, ok := s.keys[0].keys.end(s)
	if !ok {
		return driver.ErrLost
	}
	return together(held, (*sharedKey).release)
}

// Check asks the server whether the keys are held. A key that is not held is lost for all its users.
func (s *Share) Check(ctx context.Context) error {
	for _, k := range s.keys {
		if err := k.grant.Check(ctx); err != nil {
			if errors.Is(err, driver.ErrLost) {
				k.Lost(driver.LostSession, err)
			}
			return err
		}
	}
	return nil
}

// Deadline implements [driver.Grant].
func (s *Share) Deadline() driver.Instant {
	first := driver.Never
	for _, k := range s.keys {
		first = min(first, k.grant.Deadline())
	}
	return first
}

// Sessions returns the sessions that hold the keys.
func (s *Share) Sessions() (sessions []*Session) {
	for _, k := range s.keys {
		if !slices.Contains(sessions, k.grant.session) {
			sessions = append(sessions, k.grant.session)
		}
	}
	return sessions
}

// Shared returns true.
func (s *Share) Shared() bool { return true }

// Keys returns the keys.
func (s *Share) Keys() (ids []driver.KeyID) {
	for _, k := range s.keys {
		ids = append(ids, k.id)
	}
	return ids
}
