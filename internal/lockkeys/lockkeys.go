// Package lockkeys has the advisory keys that pglock itself takes beside the locks that its users ask for. The Postgres
// backend takes them, and the monitor recognises them.
package lockkeys

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// IdentityClass is the first integer of the pair keys that are identities of lock sessions.
const IdentityClass int32 = 0x70676c6b // "pglk"

// Companion is the bigint key that transactions lock which are guarded by a lock of key. It is the hash of a text that
// nobody takes for the name of a lock.
func Companion(key driver.KeyID) int64 {
	text := "pglock guard\x00" + strconv.Itoa(int(key.Space)) + "\x00" + strconv.FormatInt(key.Number, 10)
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
