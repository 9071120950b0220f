package lockkeys

import (
	"math/bits"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// PostgreSQL keeps its shared lock table in partitions, which the low bits of a lock tag's hash choose, and a backend
// that ends frees its locks one partition after another, from 0 on (LockReleaseAll in lock.c). Its locks in partition 0
// are freed at one moment, before all others.
//
// A lock tag is 16 bytes (LOCKTAG in lock.h): three 32-bit words, which for an advisory lock are the database's OID and
// the key, and one word of a 16-bit field and two bytes. From PostgreSQL 13 to 18 the bytes are 10 (LOCKTAG_ADVISORY)
// and 2 (USER_LOCKMETHOD). The hash is hash_bytes of hashfn.c, which is Bob Jenkins' lookup3; it reads the tag word by
// word, so that only the last word depends on the server's byte order.
const (
	tagAdvisory   = 10
	tagUserMethod = 2
)

// TagHashes returns the hash of the lock tag of an advisory key, as a little-endian and as a big-endian server computes it.
func TagHashes(database uint32, id driver.KeyID) (little, big uint32) {
	high, low, space := uint32(uint64(id.Number)>>32), uint32(id.Number), uint32(id.Space)
	little = hash(database, high, low, space|tagAdvisory<<16|tagUserMethod<<24)
	big = hash(database, high, low, space<<16|tagAdvisory<<8|tagUserMethod)
	return little, big
}

// FreedFirst reports whether a backend that ends frees the key before its other locks, or at the same moment, on
// servers of either byte order with up to 256 partitions (PostgreSQL has 16).
func FreedFirst(database uint32, id driver.KeyID) bool {
	little, big := TagHashes(database, id)
	return (little|big)%256 == 0
}

// hash is hash_bytes of four words.
func hash(w0, w1, w2, w3 uint32) uint32 {
	const start = 0x9e3779b9 + 16 + 3923095
	a, b, c := start+w0, start+w1, start+w2

	a = (a - c) ^ bits.RotateLeft32(c, 4)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 6)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 8)
	b += a
	a = (a - c) ^ bits.RotateLeft32(c, 16)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 19)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 4)
	b += a

	a += w3
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	return (c ^ b) - bits.RotateLeft32(b, 24)
}
