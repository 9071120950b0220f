package keylabel

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestTemplatesLabelKeysByTheFirstThatMatches(t *testing.T) {
	l, err := Templates("invoice:{id}", "tenant:{t}/invoice:{id}", "a.b", "{x}:last")
	must.Succeed(t, err)
	for name, want := range map[string]string{
		"invoice:42": "invoice:{id}", "invoice:": other, "tenant:7/invoice:42": "tenant:{t}/invoice:{id}",
		"a.b": "a.b", "aXb": other, "it:is:last": "{x}:last", "invoice:4\n2": "invoice:{id}", "xinvoice:42": other,
	} {
		if got := l.Of([]pglock.Key{pglock.NewKey(name)}, pglock.Use{}); got != want {
			t.Errorf("%q is labelled %q, want %q", name, got, want)
		}
	}
	if got := l.Of([]pglock.Key{pglock.PairKey(1, 2)}, pglock.Use{Kind: pglock.UsePermit, Key: pglock.NewKey("a.b")}); got != "a.b" {
		t.Errorf("a permit is labelled %q", got)
	}
	if got := (*Labeler)(nil).Of([]pglock.Key{pglock.NewKey("a")}, pglock.Use{}); got != "" {
		t.Errorf("without a Labeler the label is %q", got)
	}
	for _, templates := range [][]string{nil, {""}, strings.Split(strings.Repeat("a,", most)+"a", ",")} {
		if _, err := Templates(templates...); err == nil {
			t.Errorf("%d templates are no error", len(templates))
		}
	}
}

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
