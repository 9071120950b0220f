// Package histories records concurrent operations of several Lockers on the same locks, and lets a
// linearizability checker (https://github.com/anishathalye/porcupine) decide whether a single lock could have
// given the answers.
//
// Only tests use it.
package histories

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Event is an event of a lock.
type Event string

// The events of a history. All are about one key and one holder of it.
const (
	Acquired Event = "acquired"
	Held     Event = "held" // observed on the Lock
	Released Event = "released"
	Lost     Event = "lost"
	Fenced   Event = "fenced" // an exclusive holder was given a fencing token
)

// Never is the end of an event that may never have happened.
const Never = time.Duration(math.MaxInt64)

// History is a record of events. Its methods may be called concurrently.
type History struct {
	start time.Time

	mu         sync.Mutex
	operations []porcupine.Operation
	holders    int
}

// New returns a History that starts now.
func New() *History { return &History{start: time.Now()} }

// Now returns the time since the start.
func (h *History) Now() time.Duration { return time.Since(h.start) }

// Holder returns a new number for a caller of Lock.
func (h *History) Holder() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holders++
	return h.holders
}

// Entry is one event, which happened at some moment between From and To.
type Entry struct {
	Key      string
	Holder   int
	Shared   bool
	Event    Event
	Fence    int64 // of Fenced
	From, To time.Duration
}

// Add records an event.
func (h *History) Add(e Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{Input: e, Call: int64(e.From), Return: int64(e.To)})
}

// Len returns the number of events.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.operations)
}

// Check reports whether locks that exclude each other could have this history. It gives up after the given time with
// [porcupine.Unknown].
func (h *History) Check(atMost time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	return h.CheckAgainst(Model, atMost)
}

// CheckAgainst is Check for another model.
func (h *History) CheckAgainst(m porcupine.Model, atMost time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return porcupine.CheckOperationsVerbose(m, h.operations, atMost)
}

// Model is a lock with its holders, whose fencing tokens grow. It does not model waits, so it needs no refusals.
var Model = Permits(1)

// Permits is the model of a semaphore with n permits.
func Permits(n int) porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() any { return holders{} },
		Step:      func(state, input, _ any) (bool, any) { return state.(holders).step(input.(Entry), n) },
		Equal:     func(a, b any) bool { return a.(holders).equal(b.(holders)) },
		DescribeOperation: func(input, _ any) string {
			e := input.(Entry)
			if e.Shared {
				return fmt.Sprintf("%s shared by %d", e.Event, e.Holder)
			}
			return fmt.Sprintf("%s by %d", e.Event, e.Holder)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("held by %v", state.(holders).who) },
	}
}

func byKey(history []porcupine.Operation) (keys [][]porcupine.Operation) {
	index := map[string]int{}
	for _, operation := range history {
		key := operation.Input.(Entry).Key
		i, ok := index[key]
		if !ok {
			i = len(keys)
			index[key] = i
			keys = append(keys, nil)
		}
		keys[i] = append(keys[i], operation)
	}
	return keys
}

// holders are the holders of a key, in order. It is never changed, only replaced.
type holders struct {
	shared bool
	who    []int
	fence  int64 // the last token
}

func (s holders) equal(other holders) bool {
	return s.shared == other.shared && s.fence == other.fence && slices.Equal(s.who, other.who)
}

// step reports whether the event can happen in this state, and returns the next state. At most limit holders may hold
// the key unless they share it.
func (s holders) step(e Entry, most int) (possible bool, next holders) {
	i, holds := slices.BinarySearch(s.who, e.Holder)
	switch e.Event {
	case Acquired:
		if len(s.who) > 0 && !(s.shared && e.Shared) && (s.shared || e.Shared || len(s.who) == most) {
			return false, s
		}
		return !holds, holders{e.Shared, slices.Insert(slices.Clone(s.who), i, e.Holder), s.fence}
	case Held:
		return holds, s
	case Fenced:
		return holds && e.Fence > s.fence, holders{s.shared, s.who, e.Fence}
	}
	if !holds {
		return false, s
	}
	rest := slices.Delete(slices.Clone(s.who), i, i+1)
	return true, holders{s.shared && len(rest) > 0, rest, s.fence}
}
