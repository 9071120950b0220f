package monitor

import (
	"fmt"
	"testing"
)

func TestNamesRememberedNamesAreBounded(t *testing.T) {
	s := &seenNames{names: map[identity]string{}}
	for i := range maxSeen + 100 {
		s.note(identity{number: int64(i)}, fmt.Sprint(i))
	}
	if len(s.names) != maxSeen {
		t.Errorf("%d names are remembered", len(s.names))
	}
	if name, ok := s.name(identity{number: maxSeen + 99}); !ok || name != fmt.Sprint(maxSeen+99) {
		t.Errorf("the latest is %q, %v", name, ok)
	}
	s.note(identity{number: maxSeen + 99}, "again")
	if len(s.names) != maxSeen {
		t.Errorf("%d names are remembered", len(s.names))
	}
}
