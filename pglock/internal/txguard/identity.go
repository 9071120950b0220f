package txguard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Identity is the identity of one session: a pair key that it takes when it is first needed, and holds until the session
// ends. The zero Identity has not been taken. Its methods may be called concurrently.
type Identity struct {
	mu     sync.Mutex
	object int32 // 0: none has been chosen
	held   bool
	era    int     // how often Forget has been called
	taking *taking // in the background
}

// taking is an attempt to take the identity, for all callers that need it. No caller's context ends it, since an answer
// without a reader would leave an unknown key behind.
type taking struct {
	done   chan struct{}
	object int32
	err    error
}

// of returns the object of the identity, and takes the identity first if it is not held. It returns when ctx ends.
func (id *Identity) of(ctx context.Context, s Session) (object int32, err error) {
	id.mu.Lock()
	if id.held {
		defer id.mu.Unlock()
		return id.object, nil
	}
	t := id.taking
	if t == nil {
		t = &taking{done: make(chan struct{})}
		id.taking = t
		go id.take(context.WithoutCancel(ctx), s, t)
	}
	id.mu.Unlock()
	select {
	case <-t.done:
		return t.object, t.err
	case <-ctx.Done():
		return 0, sqlstate.EndedBy(ctx, fmt.Errorf("no answer of the lock session: %w", ctx.Err()))
	}
}

func (id *Identity) take(ctx context.Context, s Session, t *taking) {
	object, err := id.takeFree(ctx, s)
	id.mu.Lock()
	id.taking, t.object, t.err = nil, object, err
	id.mu.Unlock()
	close(t.done)
}

// takeFree tries one object after another until it finds one that no other session holds. If the statement fails, the
// object may have been taken: the next call tries the same one again, so at most one is held.
func (id *Identity) takeFree(ctx context.Context, s Session) (object int32, err error) {
	database, err := databaseOID(ctx, s)
	for range 100 {
		if err != nil {
			return 0, err
		}
		object, era := id.choose(database)
		var taken string
		taken, err = s.Run(ctx, lockdb.TakeIdentity, text(s.PID), text(lockkeys.IdentityClass), text(object))
		switch {
		case err != nil:
		case taken == "true":
			if id.settle(era, true) {
				return object, nil
			}
		case taken == "false":
			id.settle(era, false)
		default:
			err = fmt.Errorf("%w: the server process is not the one that the connection was made to", driver.ErrPooler)
		}
	}
	return 0, errors.Join(err, errors.New("no free identity for the lock session has been found"))
}

func databaseOID(ctx context.Context, s Session) (uint32, error) {
	row, err := s.Run(ctx, lockdb.DatabaseOID)
	if err != nil {
		return 0, err
	}
	oid, err := strconv.ParseUint(row, 10, 32)
	return uint32(oid), err
}

// choose returns the object to try.
func (id *Identity) choose(database uint32) (object int32, era int) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.object == 0 {
		id.object = lockkeys.NewIdentity(database)
	}
	return id.object, id.era
}

// settle records whether the session holds the object that it tried, and reports whether that still matters.
func (id *Identity) settle(era int, held bool) bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.era != era {
		return false
	}
	if id.held = held; !held {
		id.object = 0
	}
	return true
}

// Have notes that the session has taken object as its identity when it was opened, unless that is 0.
func (id *Identity) Have(object int32) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.object, id.held = object, object != 0
}

// Forget forgets that the session holds its identity. Call it before the session unlocks everything it holds.
func (id *Identity) Forget() {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.held = false
	id.era++
}

func text(n int32) string { return strconv.Itoa(int(n)) }
