package monitor

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
)

func TestKeptNamesAreAskedForAgain(t *testing.T) {
	m, names := newMemory(), registered{1: {"a"}, 2: {"b"}}
	m.keepNames(5, names, time.Now())
	if got, _ := m.namesOf(5); !reflect.DeepEqual(got, names) {
		t.Errorf("kept: %v", got)
	}
	if got, _ := m.namesOf(6); len(got) > 0 {
		t.Errorf("names of another database: %v", got)
	}
	m.keepNames(5, names, time.Now().Add(-keepFor))
	if got, _ := m.namesOf(5); len(got) > 0 {
		t.Errorf("old names: %v", got)
	}
}

// A key that two sessions have is asked for once.
func TestOnlyKeysWithoutNamesAreAskedFor(t *testing.T) {
	row := monitordb.LocksRow{Objsubid: pgtype.Int2{Int16: 1, Valid: true}}
	for _, number := range []uint64{1, 2, 3} {
		row.Numbers = binary.BigEndian.AppendUint64(row.Numbers, number)
	}
	numbers, semaphores, some := tables{rows: []monitordb.LocksRow{row, row}}.unnamed(registered{2: {"b"}})
	if !slices.Equal(numbers, []int64{1, 3}) || len(semaphores) > 0 || !some {
		t.Errorf("asked for: %v, %v, %v", numbers, semaphores, some)
	}
}

func TestSeenNamesAreBounded(t *testing.T) {
	m := newMemory()
	for i := range maxSeen + 100 {
		m.note(identity{number: int64(i)}, fmt.Sprint(i))
	}
	if name, ok := m.name(identity{number: maxSeen + 99}); !ok || name != fmt.Sprint(maxSeen+99) || len(m.seen) != maxSeen {
		t.Errorf("the latest of %d is %q, %v", len(m.seen), name, ok)
	}
}
