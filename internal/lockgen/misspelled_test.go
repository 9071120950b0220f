package lockgen

import (
	"strings"
	"testing"
)

func TestMisspelledDirectivesAreErrors(t *testing.T) {
	for comment, want := range map[string]string{
		" pglok: lock invoice:{id}":             "-- pglock: lock invoice:{id}",
		" plgock: lock invoice:{id} max=2s":     "-- pglock: lock invoice:{id} max=2s",
		" pglocks: key invoice:{id bigint}":     "-- pglock: key invoice:{id bigint}",
		" Pglcok: Lock nightly report":          "-- pglock: lock nightly report",
		" pg_lock: lock invoice:{id}":           "-- pglock: lock invoice:{id}",
		" pg-lock : key nightly":                "-- pglock: key nightly",
		" pg lock: lock invoice:{id} shared":    "-- pglock: lock invoice:{id} shared",
		" @pglock: lock invoice:{id}":           "-- pglock: lock invoice:{id}",
		"-- pglock: lock invoice:{id}":          "-- pglock: lock invoice:{id}",
		" pglock ; lock invoice:{id}":           "-- pglock: lock invoice:{id}",
		" pglock=lock nightly":                  "-- pglock: lock nightly",
		" pglock lock nightly":                  "-- pglock: lock nightly",
		" pglock lock invoice:{id} max_wait=2s": "-- pglock: lock invoice:{id} max_wait=2s",
		" pglok: lok invoice:{id}":              "-- pglock: lock invoice:{id}",
		" pglok: invoice:{id}":                  "-- pglock: lock invoice:{id}",
		" pglok lock nightly try":               "-- pglock: lock nightly try",
	} {
		_, _, ok, err := cutDirective(comment)
		if ok || err == nil || !strings.HasSuffix(err.Error(), `write "`+want+`"`) {
			t.Errorf("%q: got %t and %v, want advice to write %q", comment, ok, err, want)
		}
	}
}

func TestCommentsThatOnlyMentionPglock(t *testing.T) {
	for _, comment := range []string{
		"", " ", "--", " pglock", " see docs/sqlc.md", " pglock is great", " pglock lock is taken by hand here",
		" pglock locks invoice:{id} while it runs", " pglock keys look like invoice:{id}", " the pglock: lock comment is below",
		" pglock lock order: see docs", " pglock - lock helpers, see docs", " PG lock: key point is the order",
		" lock: key invoice:{id}", " block: lock the row", " clock: key of the day", " unlock: key {id}", " name: lock :exec",
		" plock-in", " pglocal: keys are strings", " Locks invoice:{id}", " glock:", " 日本: lock {x}",
	} {
		if verb, _, ok, err := cutDirective(comment); ok || err != nil {
			t.Errorf("%q: got %q and %v", comment, verb, err)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"pglock", "pglock", 0}, {"gplock", "pglock", 1}, {"pglok", "pglock", 1}, {"block", "pglock", 2}, {"ca", "abc", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
