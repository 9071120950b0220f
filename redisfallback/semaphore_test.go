package redisfallback_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/suites/semaphoretest"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestSemaphorePassesTheSuite(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			clients := m.clients(t)
			semaphoretest.Exercise(t, shortLease(clients), func(t testing.TB, key pglock.Key) {
				forget(t, clients, key)
			})
		})
	}
}
