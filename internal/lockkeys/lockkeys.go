// Package lockkeys has the advisory keys that pglock itself takes beside the locks that its users ask for. The Postgres
// backend takes them, and the monitor recognises them.
package lockkeys

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strconv"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// IdentityClass is the first integer of the pair keys that are identities of lock sessions.
const IdentityClass int32 = 0x70676c6b // "pglk"

// NewIdentity returns a random object that makes an identity in a database, of which [FreedFirst] is true. One number of
// 65,536 will do, so this takes a millisecond or two. The result is positive.
func NewIdentity(database uint32) (object int32) {
	for object = rand.Int32(); object == 0 || !FreedFirst(database, driver.PairID(IdentityClass, object)); {
		object = (object + 1) & (1<<31 - 1)
	}
	return object
}

// Companion is the bigint key that transactions lock which are guarded by a lock of key: one key for those of exclusive
// locks, and another for those of shared ones. It is the hash of a text that nothing else takes for the name of a lock.
func Companion(key driver.KeyID, shared bool) int64 {
	text := "pglock guard\x00" + strconv.Itoa(int(key.Space)) + "\x00" + strconv.FormatInt(key.Number, 10)
	if shared {
		text += "\x00shared"
	}
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
