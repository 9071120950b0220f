package monitor

import (
	"reflect"
	"testing"
	"time"
)

func TestKeptNamesAreAskedForAgain(t *testing.T) {
	k, names := &keptNames{}, registered{1: {"a"}, 2: {"b"}}
	k.set(5, names, time.Now())
	if got, _ := k.of(5, []int64{1, 3}); !reflect.DeepEqual(got, registered{1: {"a"}}) {
		t.Errorf("kept: %v", got)
	}
	if got, _ := k.of(6, []int64{1}); len(got) > 0 {
		t.Errorf("names of another database: %v", got)
	}
	k.set(5, names, time.Now().Add(-keepFor))
	if got, _ := k.of(5, []int64{1}); len(got) > 0 {
		t.Errorf("old names: %v", got)
	}
}

// Names that snapshots share are not changed in place.
func TestKeptNamesAreAdded(t *testing.T) {
	shared := append(make([]string, 0, 4), "b", "d")
	r := registered{1: shared}
	r.add(registered{1: {"c", "d"}, 2: {"x"}})
	if want := (registered{1: {"b", "c", "d"}, 2: {"x"}}); !reflect.DeepEqual(r, want) || shared[1] != "d" {
		t.Errorf("got %v, want %v; shared: %v", r, want, shared)
	}
}
