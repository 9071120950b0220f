// Package lockkeys defines the advisory keys that pglock itself takes, besides its users' locks. The monitor recognizes
// them.
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

// NewIdentity returns a random positive object for an identity in a database, one for which [FreedFirst] returns true.
// One number in 65,536 qualifies, so the search takes a millisecond or two.
func NewIdentity(database uint32) (object int32) {
	for object = rand.Int32(); object == 0 || !FreedFirst(database, driver.PairID(IdentityClass, object)); {
		object = (object + 1) & (1<<31 - 1)
	}
	return object
}

// Companion returns the bigint key that transactions take if a lock of key guards them: one key for exclusive locks,
// and another for shared ones. It is the hash of a text that no lock uses as its name.
func Companion(key driver.KeyID, shared bool) int64 {
	text := "pglock guard\x00" + strconv.Itoa(int(key.Space)) + "\x00" + strconv.FormatInt(key.Number, 10)
	if shared {
		text += "\x00shared"
	}
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
