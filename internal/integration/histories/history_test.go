package histories_test

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pglock-toolkit/pglock/internal/integration/histories"
)

// The checker finds the violations that the other tests rely on it to find.
func TestTheModelAcceptsOnlyWhatLocksDo(t *testing.T) {
	acquired, held, released := histories.Acquired, histories.Held, histories.Released
	lost, fenced := histories.Lost, histories.Fenced
	for name, test := range map[string]struct {
		entries []histories.Entry
		want    porcupine.CheckResult
	}{
		"one after the other": {want: porcupine.Ok, entries: []histories.Entry{
			{Holder: 1, Event: acquired, From: 1, To: 2}, {Holder: 1, Event: released, From: 3, To: 5},
			{Holder: 2, Event: acquired, From: 1, To: 4}, {Holder: 2, Event: released, From: 6, To: 7},
		}},
		"two at once": {want: porcupine.Illegal, entries: []histories.Entry{
			{Holder: 1, Event: acquired, From: 1, To: 2}, {Holder: 1, Event: released, From: 5, To: 6},
			{Holder: 2, Event: acquired, From: 1, To: 4}, {Holder: 2, Event: released, From: 7, To: 8},
		}},
		"two keys": {want: porcupine.Ok, entries: []histories.Entry{
			{Key: "a", Holder: 1, Event: acquired, From: 1, To: 2}, {Key: "a", Holder: 1, Event: released, From: 5, To: 6},
			{Key: "b", Holder: 2, Event: acquired, From: 1, To: 4}, {Key: "b", Holder: 2, Event: released, From: 7, To: 8},
		}},
		"readers": {want: porcupine.Ok, entries: []histories.Entry{
			{Holder: 1, Shared: true, Event: acquired, From: 1, To: 2}, {Holder: 1, Shared: true, Event: released, From: 5, To: 6},
			{Holder: 2, Shared: true, Event: acquired, From: 1, To: 4}, {Holder: 2, Shared: true, Event: released, From: 7, To: 8},
		}},
		"a writer beside a reader": {want: porcupine.Illegal, entries: []histories.Entry{
			{Holder: 1, Shared: true, Event: acquired, From: 1, To: 2}, {Holder: 1, Shared: true, Event: released, From: 5, To: 6},
			{Holder: 2, Event: acquired, From: 3, To: 4},
		}},
		"lost before the next one": {want: porcupine.Ok, entries: []histories.Entry{
			{Holder: 1, Event: acquired, From: 1, To: 2}, {Holder: 1, Event: held, From: 3, To: 4},
			{Holder: 1, Event: lost, From: 2, To: 9}, {Holder: 2, Event: acquired, From: 1, To: 6},
		}},
		"lost, and seen as held when the next one had it": {want: porcupine.Illegal, entries: []histories.Entry{
			{Holder: 1, Event: acquired, From: 1, To: 2}, {Holder: 1, Event: held, From: 7, To: 8},
			{Holder: 1, Event: lost, From: 2, To: 9}, {Holder: 2, Event: acquired, From: 1, To: 6},
			{Holder: 2, Event: held, From: 6, To: 8},
		}},
		"released by one who did not have it": {want: porcupine.Illegal, entries: []histories.Entry{
			{Holder: 1, Event: acquired, From: 1, To: 2}, {Holder: 2, Event: released, From: 3, To: 4},
		}},
		"tokens that grow": {want: porcupine.Ok, entries: []histories.Entry{
			{Holder: 1, Event: acquired, From: 1, To: 2}, {Holder: 1, Event: fenced, Fence: 5, From: 1, To: 3},
			{Holder: 1, Event: lost, From: 2, To: 9}, {Holder: 2, Event: acquired, From: 4, To: 6},
			{Holder: 2, Event: fenced, Fence: 6, From: 4, To: 7},
		}},
		"a token that does not grow": {want: porcupine.Illegal, entries: []histories.Entry{
			{Holder: 1, Event: acquired, From: 1, To: 2}, {Holder: 1, Event: fenced, Fence: 5, From: 1, To: 3},
			{Holder: 1, Event: lost, From: 2, To: 9}, {Holder: 2, Event: acquired, From: 4, To: 6},
			{Holder: 2, Event: fenced, Fence: 5, From: 4, To: 7},
		}},
		"a token after the release": {want: porcupine.Illegal, entries: []histories.Entry{
			{Holder: 1, Event: acquired, From: 1, To: 2}, {Holder: 1, Event: released, From: 3, To: 4},
			{Holder: 1, Event: fenced, Fence: 5, From: 5, To: 6},
		}},
		"never known whether it was released": {want: porcupine.Ok, entries: []histories.Entry{
			{Holder: 1, Event: acquired, From: 1, To: 2}, {Holder: 1, Event: lost, From: 2, To: histories.Never},
		}},
	} {
		h := histories.New()
		for _, e := range test.entries {
			h.Add(e)
		}
		if got, _ := h.Check(time.Minute); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
