// Package suitetest has what the conformance suites have in common.
package suitetest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"
)

// Suite is one case of a suite.
type Suite struct {
	*testing.T
	// Ctx ends after the patience of [Run].
	Ctx context.Context
}

// Run runs cases by their names; S is the suite's own type, which embeds a Suite. A case fails if something that must happen
// takes longer than patience, which is generous for machines that are slow.
func Run[S any](t *testing.T, patience time.Duration, of func(*Suite) S, cases map[string]func(S)) {
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cases[name](of(&Suite{T: t, Ctx: ctx}))
		})
	}
}

// Must fails the test on an error.
func (s *Suite) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Until waits until done returns true. what completes the sentence "timed out waiting until".
func (s *Suite) Until(what string, done func() bool) {
	s.Helper()
	for !done() {
		select {
		case <-s.Ctx.Done():
			s.Fatalf("timed out waiting until %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// Attempt is a call that runs in the background.
type Attempt[V any] struct {
	// Done is closed when the call has returned.
	Done <-chan struct{}
	// Err is the error of a call that has returned.
	Err   error
	value V
}

// Start begins a call.
func Start[V any](call func() (V, error)) *Attempt[V] {
	done := make(chan struct{})
	a := &Attempt[V]{Done: done}
	go func() {
		defer close(done)
		a.value, a.Err = call()
	}()
	return a
}

// Ended waits until the call has returned.
func (a *Attempt[V]) Ended(s *Suite) {
	s.Helper()
	select {
	case <-a.Done:
	case <-s.Ctx.Done():
		s.Fatal("timed out waiting for a call to return")
	}
}

// Got waits for what the call was to get.
func (a *Attempt[V]) Got(s *Suite) V {
	s.Helper()
	a.Ended(s)
	s.Must(a.Err)
	return a.value
}
