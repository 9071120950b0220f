package monitor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// registered has the names of the connected database's keys, sorted. Only bigints have names.
type registered map[int64][]string

// registryMissing returns why there are no registered names, or "" if the registry can be read.
func registryMissing(t tables) string {
	switch row := t.rows[0]; {
	case !row.SchemaExists:
		return fmt.Sprintf("schema pglock is not installed in database %q: run pglock migrate up", t.server.Database)
	case !row.Ours:
		owner := ""
		if len(t.looked.Findings) > 0 {
			owner = fmt.Sprintf(" (%s)", t.looked.Findings[0])
		}
		return fmt.Sprintf("schema pglock of database %q was not created by pglock%s, so there is no name registry",
			t.server.Database, owner)
	case !row.Readable:
		return fmt.Sprintf("role %[1]s may not read the name registry: "+
			"GRANT USAGE ON SCHEMA pglock TO %[1]s; GRANT SELECT ON pglock.names TO %[1]s", quote(t.server.Role))
	}
	return ""
}

// readNames reads the registered names of the locks in t. Users can break the registry, so its failure is separate: t
// then has everything but the names, and the reason.
//
// A registry that belongs to trusted roles is queried for the keys. No other registry is read.
func (r reader) readNames(ctx context.Context, t *tables, o config) error {
	row := t.rows[0]
	if !row.SchemaExists || !row.Ours || !row.Readable {
		return nil
	}
	known, since := o.memory.namesOf(row.ConnectedOid.Uint32)
	numbers, semaphores, some := t.unnamed(known)
	if !some {
		return nil
	}
	if !t.trusted() {
		t.noNames = "pglock.names was not read: " + cmp.Or(t.unchecked, t.looked.Err()).Error()
		return nil
	}
	if t.names = known; len(numbers)+len(semaphores) == 0 {
		return nil
	}
	answer, err := r.askForNames(ctx, t.looked, numbers, semaphores)
	if err == nil {
		t.names = maps.Clone(known) // another snapshot may be reading it
		maps.Copy(t.names, answer)
		o.memory.keepNames(row.ConnectedOid.Uint32, t.names, since)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	if err := connectionBroke(err); err != nil {
		return err
	}
	t.noNames = "cannot read pglock.names: " + cmp.Or(sqlstate.Refusal(err).Message, err.Error())
	return nil
}

// connectionBroke returns err unless it is a refusal by the server or by this package.
func connectionBroke(err error) error {
	if sqlstate.Of(err) != "" || errors.Is(err, driver.ErrUntrusted) || errors.Is(err, driver.ErrSchemaMissing) {
		return nil
	}
	return err
}

// trusted reports whether the registry may be queried.
func (t tables) trusted() bool { return t.unchecked == nil && len(t.looked.Findings) == 0 }

// unnamed returns the numbers that can have names and have none yet, and the IDs of the semaphores, whose names can
// change. some says whether any key can have a name.
func (t tables) unnamed(known registered) (numbers, semaphores []int64, some bool) {
	asked := map[driver.KeyID]bool{}
	note := func(key driver.KeyID) {
		semaphore, _, isSemaphore := lockkeys.ParseSemaphore(key)
		if isSemaphore {
			key = driver.KeyID{Number: int64(semaphore)}
		}
		isNumber := key.Space == driver.SpaceBigint
		some = some || isSemaphore || isNumber
		switch {
		case asked[key] || isNumber && known[key.Number] != nil:
		case isSemaphore:
			asked[key], semaphores = true, append(semaphores, key.Number)
		case isNumber:
			asked[key], numbers = true, append(numbers, key.Number)
		}
	}
	for id := range t.locks() {
		if id.database == t.rows[0].ConnectedOid.Uint32 {
			note(id.key())
		}
	}
	for _, row := range t.rowLocks {
		if row.Space != int16(driver.SpaceBigint) {
			note(row.key())
		}
	}
	return numbers, semaphores, some
}

// askForNames returns the names of keys and semaphores. It first checks, in the same transaction, that the schema is still trusted.
func (r reader) askForNames(ctx context.Context, looked trust.Looked, numbers, semaphores []int64) (registered, error) {
	var list []byte
	err := r.send(ctx, func(batch *pgx.Batch) {
		looked.QueueSame(batch)
		batch.Queue(monitordb.RegisteredNames, numbers, semaphores).QueryRow(func(row pgx.Row) error { return row.Scan(&list) })
	})
	if err != nil {
		return nil, sqlstate.ExplainSchema(err)
	}
	return decodeNames(list)
}

// decodeNames reads the names as the server sends them.
func decodeNames(list []byte) (registered, error) {
	const head = 8
	names := registered{}
	for rest, more := list, len(list) > 0; more; {
		if len(rest) < head {
			return nil, fmt.Errorf("read the names of keys: the list is truncated (%d bytes left over)", len(rest))
		}
		key := int64(binary.BigEndian.Uint64(rest))
		var name []byte
		name, rest, more = bytes.Cut(rest[head:], []byte{0})
		names[key] = append(names[key], shorttext.Clean(string(name)))
	}
	for _, all := range names {
		slices.Sort(all)
	}
	return names, nil
}
