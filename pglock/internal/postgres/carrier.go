package postgres

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/waitsession"
)

// carrier holds a lock: keys on a mux session, a use of a shared key there, or a key on a wait session.
type carrier interface {
	driver.Grant // with a deadline
	Release(context.Context) error
	Check(context.Context) error
	// Keys returns the keys that are held, and Shared reports whether they are held shared.
	Keys() []driver.KeyID
	Shared() bool
	// Session returns the session that holds the lock.
	Session() *mux.Session
}

var (
	_ carrier = (*mux.Grant)(nil)
	_ carrier = (*mux.Share)(nil)
	_ carrier = (*waitsession.Grant)(nil)
)

// ours returns the carrier behind held.
func ours(held driver.Grant) (carrier, error) {
	if c, ok := held.(carrier); ok {
		return c, nil
	}
	return nil, fmt.Errorf("a grant of type %T does not come from the PostgreSQL backend", held)
}
