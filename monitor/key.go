package monitor

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// identity identifies an advisory lock. Two rows of pg_locks are the same lock if all fields are equal.
type identity struct {
	database uint32
	objsubid int16
	number   int64
}

// identify decodes a row: the two halves of the key are in classid and objid, as unsigned numbers, and the space is in
// objsubid (https://www.postgresql.org/docs/current/view-pg-locks.html).
func identify(database, classid, objid pgtype.Uint32, objsubid pgtype.Int2) identity {
	return identity{database.Uint32, objsubid.Int16, int64(classid.Uint32)<<32 | int64(objid.Uint32)}
}

// halves returns the two integers that number consists of.
func (id identity) halves() (class, object int32) {
	return int32(id.number >> 32), int32(id.number)
}

func (id identity) space() string {
	switch driver.Space(id.objsubid) {
	case driver.SpaceBigint:
		return spaceBigint
	case driver.SpacePair:
		return spacePair
	}
	return spaceOther
}

// key returns the key of a lock.
func (id identity) key() driver.KeyID {
	return driver.KeyID{Space: driver.Space(id.objsubid), Number: id.number}
}

// text returns the key's names or, if it has none, its number.
func (id identity) text(names []string) string {
	class, object := id.halves()
	switch {
	case len(names) > 0:
		return id.notation(names)
	case id.space() == spaceBigint:
		return pglock.Int64Key(id.number).String()
	case id.space() == spacePair:
		return pglock.PairKey(class, object).String()
	}
	return fmt.Sprintf("%v#%d", pglock.PairKey(class, object), id.objsubid)
}

func (id identity) notation(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = driver.Key{KeyID: id.key(), Name: name, Named: true}.String()
	}
	return strings.Join(texts, " | ")
}
