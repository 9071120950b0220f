package monitor

import (
	"fmt"
	"testing"
)

func TestNamesThatAreRememberedAreBounded(t *testing.T) {
	s := &seenNames{names: map[identity]string{}}
	for i := range mostSeen + 100 {
		s.note(identity{number: int64(i)}, fmt.Sprint(i))
	}
	if len(s.names) != mostSeen {
		t.Errorf("%d names are remembered", len(s.names))
	}
	if name, ok := s.name(identity{number: mostSeen + 99}); !ok || name != fmt.Sprint(mostSeen+99) {
		t.Errorf("the latest is %q, %v", name, ok)
	}
	s.note(identity{number: mostSeen + 99}, "again")
	if len(s.names) != mostSeen {
		t.Errorf("%d names are remembered", len(s.names))
	}
}
