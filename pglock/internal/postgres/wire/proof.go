package wire

import (
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Witness returns what a new connection is to prove (queries/sessions.sql): that it is refused the identity of another
// session, 0 if there is none, and, with own, that it can take an identity of its own.
type Witness func(conn *pgx.Conn) (identity int32, own bool)

// Proof is what a session has found out about its server.
type Proof struct {
	Identity int32 // its own; 0 if it has none
	Free     bool  // the witness's identity was free: the witness has ended, or the server does not keep locks
}

// ProofArgs are the arguments of ProveSession.
func (c *Conn) ProofArgs(witness, object int32) []string {
	args := make([]string, 0, 4)
	for _, n := range []int32{c.GuardPID, witness, lockkeys.IdentityClass, object} {
		args = append(args, strconv.Itoa(int(n)))
	}
	return args
}

// ReadProof reads the answer to ProveSession. A role that may not ask has no proof; a lock table that is full says so
// when it is needed.
func ReadProof(proof string, object int32, err error) (Proof, error) {
	switch sqlstate.Of(err) {
	case "":
	case sqlstate.InsufficientPrivilege, sqlstate.UndefinedFunction, sqlstate.OutOfMemory:
		return Proof{}, nil
	case sqlstate.FeatureNotSupported:
		return Proof{}, fmt.Errorf("%w: the server has no advisory locks: %w", driver.ErrUnsupported, err)
	}
	switch {
	case err != nil:
		return Proof{}, err
	case proof == "own":
		return Proof{Identity: object}, nil
	case proof == "held":
		return Proof{}, nil
	case proof == "free":
		return Proof{Free: true}, nil
	case proof == "nothing":
		return Proof{}, fmt.Errorf("%w: the server says that it has granted an advisory lock, and pg_locks does not show it: "+
			"its lock functions do nothing", driver.ErrUnsupported)
	}
	return Proof{}, Refusal(proof)
}

// isShared reports whether err, of a new connection, can only come from what another client has left in its session.
func isShared(err error) bool {
	switch sqlstate.Of(err) {
	case "42P05", "42P07", "42710", "42723", "26000", "25001", sqlstate.InFailedTransaction:
		return true
	}
	return false
}

// prove prepares the session's statements and proves that the server keeps locks, in one go.
func (c *Conn) prove(witness, object int32) error {
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.SendQuery(lockdb.ProveSession, c.ProofArgs(witness, object)...); err != nil {
		return err
	}
	var prepared, proof Answer
	if err := c.Receive(&prepared); err != nil {
		return err
	}
	if err := c.Receive(&proof); err != nil {
		return err
	}
	if err := prepared.Error(); err != nil {
		return err
	}
	value, _ := proof.Value()
	var err error
	c.Proof, err = ReadProof(value, object, proof.Error())
	return err
}
