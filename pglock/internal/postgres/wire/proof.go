package wire

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Witness returns the identity of another session, which a new connection is to be refused (queries/sessions.sql); 0 if there
// is none.
type Witness func(conn *pgx.Conn) (identity int32)

// Prove proves that the server keeps locks, and takes an identity, unless it finds that of the witness Free. A role that may not
// ask has no proof, and no identity.
func (c *Conn) Prove(ask func(sql string, args ...string) (string, error), witness int32) error {
	for range 100 {
		object := lockkeys.NewIdentity(c.Database)
		args := make([]string, 0, 4)
		for _, n := range []int32{c.GuardPID, witness, lockkeys.IdentityClass, object} {
			args = append(args, strconv.Itoa(int(n)))
		}
		proof, err := ask(lockdb.ProveSession, args...)
		switch sqlstate.Of(err) {
		case sqlstate.InsufficientPrivilege, sqlstate.UndefinedFunction:
			return nil
		case sqlstate.FeatureNotSupported:
			return fmt.Errorf("%w: the server has no advisory locks: %w", driver.ErrUnsupported, err)
		}
		switch {
		case err != nil:
			return err
		case proof == "held": // by another session: there are not many
			continue
		case proof == "own":
			c.Identity = object
			return nil
		case proof == "free":
			c.Free = true
			return nil
		case proof == "nothing":
			return fmt.Errorf("%w: the server says that it has granted an advisory lock, and pg_locks does not show it: "+
				"its lock functions do nothing", driver.ErrUnsupported)
		}
		return Refusal(proof)
	}
	return errors.New("no free identity was found")
}

// isShared reports whether err, of a new connection, can only come from what another client has left in its session.
func isShared(err error) bool {
	switch sqlstate.Of(err) {
	case "42P05", "26000", // a prepared statement of that name exists, or none does
		"42P07", "42710", "42723", // a table, an object or a function of that name exists
		"25001", sqlstate.InFailedTransaction: // in the middle of a transaction
		return true
	}
	return false
}
