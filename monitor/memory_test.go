package monitor

import (
	"fmt"
	"reflect"
	"testing"
	"time"
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

func TestSeenNamesAreBounded(t *testing.T) {
	m := newMemory()
	for i := range maxSeen + 100 {
		m.note(identity{number: int64(i)}, fmt.Sprint(i))
	}
	if name, ok := m.name(identity{number: maxSeen + 99}); !ok || name != fmt.Sprint(maxSeen+99) || len(m.seen) != maxSeen {
		t.Errorf("the latest of %d is %q, %v", len(m.seen), name, ok)
	}
}
