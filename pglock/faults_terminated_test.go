//go:build openfaults

// These tests fail now and then, for reasons that are not understood yet, so they are run by hand:
// go test -tags openfaults ./pglock

package pglock_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Sessions end under load, again and again. No call fails but with what has happened, nothing is left, and the Lockers go
// on. Where every Unlock asks the server, none says that all was well of a lock that somebody else had got meanwhile.
func TestLocksGoOnWhileSessionsAreTerminated(t *testing.T) {
	for name, victim := range map[string]string{"any": hitAny, "waiters": hitWaiter, "holders": hitHolder} {
		t.Run(name, func(t *testing.T) {
			hitSessions(t, "near", terminateIt+victim, trials(t, 50), newWitness(toldByUnlock), pglock.WithHandoffLimit(0, 0))
		})
	}
	t.Run("far", func(t *testing.T) {
		hitSessions(t, "far", terminateIt+hitAny, trials(t, 50), newWitness(toldByUnlock), pglock.WithHandoffLimit(0, 0))
	})
	t.Run("handing on", func(t *testing.T) {
		hitSessions(t, "near", terminateIt+hitAny, trials(t, 50), newWitness(toldLate))
	})
}
