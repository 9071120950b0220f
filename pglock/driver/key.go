package driver

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Space is one of PostgreSQL's two spaces of advisory keys; its value is the objsubid that pg_locks shows for it
// (https://www.postgresql.org/docs/current/view-pg-locks.html).
type Space int16

const (
	// SpaceBigint is the space of keys of one bigint.
	SpaceBigint Space = 1
	// SpacePair is the space of keys of two integers. It does not overlap with SpaceBigint.
	SpacePair Space = 2
)

// KeyID identifies a lock: two keys are the same lock exactly when their KeyIDs are equal. The zero KeyID is not a
// key.
type KeyID struct {
	Space Space
	// Number is the bigint, or a pair packed as class<<32 | uint32(object).
	Number int64
}

// PairID packs a pair of integers.
func PairID(class, object int32) KeyID {
	return KeyID{SpacePair, int64(class)<<32 | int64(uint32(object))}
}

// Pair unpacks what [PairID] packed; ok is false for keys of the other space.
func (id KeyID) Pair() (class, object int32, ok bool) {
	if id.Space != SpacePair {
		return 0, 0, false
	}
	return int32(id.Number >> 32), int32(id.Number), true
}

// Compare orders keys by space, then number. All code that takes several locks takes them in this order, in every
// process and on every path, so that no two of them can deadlock.
func (id KeyID) Compare(other KeyID) int {
	return cmp.Or(cmp.Compare(id.Space, other.Space), cmp.Compare(id.Number, other.Number))
}

// Key is a lock's identity and, when it was made from one, its name.
type Key struct {
	KeyID
	// Name is the name that was hashed to Number, when Named.
	Name  string
	Named bool
}

// Compare orders keys by their KeyIDs, then by their names.
func (k Key) Compare(other Key) int {
	return cmp.Or(k.KeyID.Compare(other.KeyID), cmp.Compare(k.Name, other.Name))
}

// String returns the notation of package pglock's ParseKey: the name, after an additional @ if it begins with one, or
// an @ and a raw key's number. Backends whose server knows locks by text use this text: two keys that are the same lock
// on PostgreSQL have different texts when one of them has no name.
func (k Key) String() string {
	if k.Name != "" && k.KeyID != (KeyID{}) {
		if strings.HasPrefix(k.Name, "@") {
			return "@" + k.Name
		}
		return k.Name
	}
	if class, object, ok := k.Pair(); ok {
		return fmt.Sprintf("@%d/%d", class, object)
	}
	if k.KeyID == (KeyID{}) {
		return "@invalid"
	}
	return "@" + strconv.FormatInt(k.Number, 10)
}
