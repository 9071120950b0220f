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

// sharedKeys are the shared keys that the sessions hold, or are asked to.
type sharedKeys struct {
	mu  sync.Mutex
	all map[driver.KeyID]*sharedKey
}

// sharedKey is a shared key that one session holds, once, for all who use it here.
//
// Whoever comes later asks on another session, which does not hold the key: the server refuses that exactly when a writer
// holds it or waits for it. If it is granted, the newcomer joins those who use the key, and the other session gives its own
// lock back. The newcomer has been counted before it asked, so the key stays on its session meanwhile, and no writer can come
// between. Where there is no other session pg_locks is asked for a writer that waits.
type sharedKey struct {
	keys    *sharedKeys
	id      driver.KeyID
	grant   *Grant        // whose owner this is
	probing chan struct{} // has room while no newcomer asks

	// Under keys.mu:
	changing chan struct{} // closed when the key has come to its session, or has gone; nil while it is there
	users    int           // those who use it, and newcomers who ask
	shares   []*Share
	loss     *loss // how it was lost
}

type loss struct {
	why driver.Reason
	err error
}

// Share is one use of a shared key.
type Share struct {
	key   *sharedKey
	owner driver.Owner
}

// TryShared locks one key shared, as [Mux.Try] does.
func (m *Mux) TryShared(ctx context.Context, id driver.KeyID, owner driver.Owner) (*Share, error) {
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
				_ = k.leave() // it is not the newcomer's to say if the last user's release fails
			}
		}
		if err != nil {
			return nil, err
		}
		return k.use(owner), nil
	}
}

// enter counts a newcomer. It returns what to wait for if the key is changing; the first one is to lock it.
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
	WhenSettled(err, k.gone) // nobody asks for it before
	return err
}

// WhenSettled calls then when it is known what the server did about a try or a release that failed, or worked.
func WhenSettled(err error, then func()) {
	open, ok := errors.AsType[*driver.Unsettled](err)
	if !ok {
		then()
		return
	}
	go func() {
		<-open.Done
		then()
	}()
}

// join asks whether a newcomer, who has been counted, may use k.
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
	probe := NewGrant([]driver.Key{{KeyID: k.id}}, true, nobody{})
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
	value, _, err := k.grant.session.Call(ctx, lockdb.WriterWaits,
		wire.ArrayText([]int64{k.id.Number}), wire.ArrayText([]int16{int16(k.id.Space)}))
	if err == nil && value == "t" {
		return driver.ErrNotAcquired
	}
	return explain(ctx, err)
}

// nobody owns what is given back at once.
type nobody struct{}

func (nobody) Lost(driver.Reason, error) {}

// use makes a newcomer, who has been counted, one who uses k. If that has been lost meanwhile its owner hears at once.
func (k *sharedKey) use(owner driver.Owner) *Share {
	share := &Share{key: k, owner: owner}
	k.keys.mu.Lock()
	lost := k.loss
	if lost == nil {
		k.shares = append(k.shares, share)
	}
	k.keys.mu.Unlock()
	if lost != nil {
		owner.Lost(lost.why, lost.err)
	}
	return share
}

// Lost implements [driver.Owner] for all who use the key.
func (k *sharedKey) Lost(why driver.Reason, err error) {
	k.keys.mu.Lock()
	k.loss = &loss{why, err}
	shares := k.shares
	k.shares = nil
	k.goneLocked()
	k.keys.mu.Unlock()
	for _, share := range shares {
		share.owner.Lost(why, err)
	}
}

// leave counts one user less. The last one has the session give the key back; until that is known nobody asks for it.
func (k *sharedKey) leave() error {
	k.keys.mu.Lock()
	k.users--
	last := k.users == 0 && k.loss == nil
	if last {
		k.changing = make(chan struct{})
	}
	k.keys.mu.Unlock()
	if !last {
		return nil
	}
	err := k.grant.session.release(k.grant)
	WhenSettled(err, k.gone)
	return err
}

// gone is for a key that no session holds any more.
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

// settleLocked lets those go on who wait for the key to come or go.
func (k *sharedKey) settleLocked() {
	if k.changing != nil {
		close(k.changing)
		k.changing = nil
	}
}

// Release gives the share up.
func (s *Share) Release(context.Context) error {
	k := s.key
	k.keys.mu.Lock()
	i := slices.Index(k.shares, s)
	if i >= 0 {
		k.shares = slices.Delete(k.shares, i, i+1)
	}
	lost := k.loss
	k.keys.mu.Unlock()
	if i < 0 {
		if lost != nil && lost.err != nil {
			return wire.LostBecause(lost.err)
		}
		return driver.ErrLost
	}
	return k.leave()
}

// Check asks the server whether the key is held. If not, it is lost for all who use it.
func (s *Share) Check(ctx context.Context) error {
	err := s.key.grant.Check(ctx)
	if errors.Is(err, driver.ErrLost) {
		s.key.Lost(driver.ReasonSession, err)
	}
	return err
}

// Deadline implements [driver.Grant].
func (s *Share) Deadline() driver.Instant { return s.key.grant.Deadline() }

// Sessions are the one that holds the key.
func (s *Share) Sessions() []*Session { return s.key.grant.Sessions() }

// Shared is true.
func (s *Share) Shared() bool { return true }

// Keys lists the key.
func (s *Share) Keys() []driver.KeyID { return []driver.KeyID{s.key.id} }
