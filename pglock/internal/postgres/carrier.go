package postgres

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/waitsession"
)

// carrier holds a key: on a mux session, or on a wait session.
type carrier interface {
	driver.Grant // with a deadline
	Release(context.Context) error
	Check(context.Context) error
	// Key returns the key that is held, and Shared reports whether it is held shared.
	Key() driver.KeyID
	Shared() bool
	// Session returns the session that holds the lock.
	Session() *mux.Session
}

var (
	_ carrier = (*mux.Grant)(nil)
	_ carrier = (*waitsession.Grant)(nil)
)

// ours returns the carrier behind held.
func ours(held driver.Grant) (carrier, error) {
	if c, ok := held.(carrier); ok {
		return c, nil
	}
	return nil, fmt.Errorf("a grant of type %T does not come from the PostgreSQL backend", held)
}
