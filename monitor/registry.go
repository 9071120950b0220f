package monitor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/bytetext"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// registered has the names of the connected database's keys. Only bigints have names.
type registered map[int64][]string

func (r registered) sorted() registered {
	for _, names := range r {
		slices.Sort(names)
	}
	return r
}

// readNames reads the registered names of the locks in t. Users can break the registry, so its failure is separate: t
// then has everything but the names, and the reason.
//
// A registry that belongs to trusted roles is queried for the keys. No other registry is read.
func (r reader) readNames(ctx context.Context, t *tables, o options) error {
	row := t.rows[0]
	numbers, semaphores := t.bigints(), t.semaphores()
	if !row.SchemaExists || !row.Ours || !row.Readable || len(numbers)+len(semaphores) == 0 {
		return nil
	}
	if !t.trusted() {
		t.noNames = "pglock.names was not read: " + cmp.Or(t.unchecked, t.looked.Err()).Error()
		return nil
	}
	err := r.completeNames(ctx, t, numbers, semaphores, o)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if err := connectionBroke(err); err != nil {
		return err
	}
	t.noNames = namesMissingText(*t, err)
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

func namesMissingText(t tables, err error) string {
	if t.named {
		return "cannot read " + err.Error()
	}
	return "cannot read pglock.names: " + cmp.Or(sqlstate.Refusal(err).Message, err.Error())
}

// bigints returns the numbers that can have names.
func (t tables) bigints() []int64 {
	known, all := map[int64]bool{}, []int64{}
	for id := range t.locks() {
		if id.space() == spaceBigint && id.database == t.rows[0].ConnectedOid.Uint32 && !known[id.number] {
			known[id.number] = true
			all = append(all, id.number)
		}
	}
	return all
}

// completeNames asks for the names that are not kept.
func (r reader) completeNames(ctx context.Context, t *tables, numbers, semaphores []int64, o options) error {
	database := t.rows[0].ConnectedOid.Uint32
	known, since := o.memory.namesOf(database, numbers)
	t.names = known
	unknown := known.without(numbers)
	if len(unknown)+len(semaphores) == 0 {
		return nil
	}
	err := r.askForNames(ctx, t, unknown, semaphores)
	if t.named {
		o.memory.keepNames(database, t.names, since)
	}
	return err
}

// maxNamed bounds the bytes of the names that are read for a snapshot, and again those of semaphores: each name may have its
// share of it. So long names that a role records crowd out no others.
const maxNamed = 16 << 20

// maxLimits is how many names of a semaphore are read.
const maxLimits = 16

// longest returns how many bytes a name may have among so many.
func longest(names int) int64 { return maxNamed / int64(max(names, 1)) }

// askForNames adds the names of keys. It first checks, in the same transaction, that the schema is still trusted.
// The semaphores come last: if their names cannot be read, as in a schema of an older version, the others remain.
func (r reader) askForNames(ctx context.Context, t *tables, numbers, semaphores []int64) error {
	most, mostOfLimit := longest(len(numbers)+len(t.names)), longest(maxLimits*len(semaphores))
	var named monitordb.RegisteredNamesRow
	var limited monitordb.RegisteredSemaphoresRow
	asked := false
	err := r.send(ctx, func(batch *pgx.Batch) {
		t.looked.QueueSame(batch)
		batch.Queue(monitordb.RegisteredNames, numbers, most).Query(func(rows pgx.Rows) error {
			err := readOne(&named)(rows)
			asked = err == nil
			return err
		})
		if len(semaphores) > 0 {
			batch.Queue(monitordb.RegisteredSemaphores, semaphores, mostOfLimit).Query(readOne(&limited))
		}
	})
	if err != nil && !asked {
		return trust.Explain(err)
	}
	t.named = true
	answer := registered{}
	if err := errors.Join(answer.decode(named.Names), answer.decode(limited.Names)); err != nil {
		return err
	}
	t.names.add(answer)
	switch {
	case named.LeftOut > 0:
		t.noNames = leftOut(named.LeftOut, most)
	case limited.LeftOut > 0:
		t.noNames = leftOut(limited.LeftOut, mostOfLimit)
	}
	if err != nil {
		return fmt.Errorf("the names of semaphores (if the schema is older than the program, run pglock migrate up): %w", err)
	}
	return nil
}

func leftOut(names, longest int64) string {
	return fmt.Sprintf("%d names of more than %d bytes are left out: each may have its share of %d MiB",
		names, longest, maxNamed>>20)
}

// decode adds names as the server sends them.
func (r registered) decode(list []byte) error {
	const head = 8
	for rest, more := list, len(list) > 0; more; {
		if len(rest) < head {
			return fmt.Errorf("read the names of keys: the list is truncated (%d bytes left over)", len(rest))
		}
		key := int64(binary.BigEndian.Uint64(rest))
		var name []byte
		name, rest, more = bytes.Cut(rest[head:], []byte{0})
		r[key] = append(r[key], bytetext.Clean(string(name)))
	}
	r.sorted()
	return nil
}

// add adds names of other keys, or more names of the same. It changes no list of names, since other snapshots have it too.
func (r registered) add(more registered) {
	for key, names := range more {
		if known := r[key]; known != nil {
			names = slices.Concat(known, names)
			slices.Sort(names)
			names = slices.Compact(names)
		}
		r[key] = names
	}
}

// without returns those keys that have no name.
func (r registered) without(keys []int64) []int64 {
	if len(r) == 0 {
		return keys
	}
	rest := []int64{}
	for _, key := range keys {
		if r[key] == nil {
			rest = append(rest, key)
		}
	}
	return rest
}
