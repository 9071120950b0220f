package keylabel

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Locks by which the monitor recognises others would be counted beside them.
func TestLocksForInternalPurposesAreNotCounted(t *testing.T) {
	for kind, want := range map[pglock.UseKind]bool{
		hooks.UseSemaphoreGate: true, hooks.UseLeaderMark: true, hooks.UseTickMark: true,
		pglock.UseLock: false, pglock.UseLeader: false, pglock.UsePermit: false, pglock.UseTick: false, "mine": false,
	} {
		if got := Internal(pglock.Use{Kind: kind}); got != want {
			t.Errorf("%q is internal: %v", kind, got)
		}
	}
}
