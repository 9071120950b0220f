package monitor

import (
	"slices"
	"strings"
	"testing"
)

// guessesFor returns the guesses for a key without a name in a database, which a session with a query holds.
func guessesFor(database string, id identity, query string) []string {
	g := &guesser{from: sources{queries: map[string]*texts{}}, computed: map[string]map[int64][]string{}}
	lock := newLock(id, database)
	lock.Holders = []Holder{{Session: Session{Query: query}}}
	return g.guesses(id, lock)
}

func bigint(number int64) identity { return identity{objsubid: 1, number: number} }

func pair(class, object int32) identity {
	return identity{objsubid: 2, number: int64(class)<<32 | int64(uint32(object))}
}

// The numbers were computed with Python's zlib, hashlib and struct, from what the sources of the tools say.
func TestKnownKeysOfKnownToolsAreGuessed(t *testing.T) {
	if got := strings.Join(guessesFor("shop", bigint(2101699660), ""), ", "); got != "golang-migrate migrations of database shop" {
		t.Errorf("the key of golang-migrate's command is guessed to be %q", got)
	}
	for want, id := range map[string]identity{
		"golang-migrate migrations of database shop": bigint(3689236698),
		"goose migrations":                           bigint(4097083626),
		"Rails migrations of database shop":          bigint(5939944341529942170),
		"Prisma migrations":                          bigint(72707369),
		"Flyway migrations":                          bigint(77433833903597),
		"tern migrations":                            bigint(9628173550095224),
		"sqlx migrations of database shop":           bigint(2969972169318647292),
		"Atlas migrations":                           bigint(2686470616),
		"Atlas computing a diff":                     bigint(361947982),
		"Sqitch changes":                             bigint(75474063),
		"node-pg-migrate migrations":                 bigint(7241865325823964),
		"pg-boss setting up database shop":           bigint(4359492127286643510),
		"pg-boss counting the jobs of database shop": bigint(-4310161552065436547),
		"pg_partman maintenance":                     bigint(-988976779),
		"pg_repack of the table with OID 16384":      pair(16185446, -2147467264),
		"pg_repack of the table with OID 4294967295": pair(16185446, 2147483647),
		"a pgBackRest backup":                        bigint(12340078987004321),
		"a lock of Citus, kind 4":                    {objsubid: 4, number: 7},
		"a lock of Citus, kind 16":                   {objsubid: 16, number: 7},
	} {
		if got := strings.Join(guessesFor("shop", id, ""), ", "); got != want {
			t.Errorf("%v is guessed to be %q, want %q", id, got, want)
		}
	}
}

func TestKnownOtherKeysAreNotGuessed(t *testing.T) {
	for _, id := range []identity{
		bigint(0), bigint(1), bigint(11), bigint(-1), bigint(6688477336110245193), bigint(77431708279161 + 1<<31),
		pair(1, 1), pair(0, 4097083626-1<<32), pair(7, -42), pair(-1, -1), pair(16185447, 0),
		{objsubid: 3, number: 1}, {objsubid: 11, number: 1}, {objsubid: 17, number: 1},
	} {
		if got := guessesFor("shop", id, ""); len(got) > 0 {
			t.Errorf("%v is guessed to be %q", id, got)
		}
	}
	if got := guessesFor("other", bigint(5939944341529942170), ""); len(got) > 0 {
		t.Errorf("a key of another database is guessed to be %q", got)
	}
}

func TestKnownTextsOfQueriesAreHashedAsOthersDo(t *testing.T) {
	want := []string{`with_advisory_lock's lock "nightly"`}
	if got := guessesFor("shop", pair(267906906, 0), "SELECT 'nightly'"); !slices.Equal(got, want) {
		t.Errorf("guessed to be %q, want %q", got, want)
	}
}

func TestLabels(t *testing.T) {
	for want, lock := range map[string]Lock{
		"@1": {Key: "@1"}, "probably a or b": {Key: "@1", Guesses: []string{"a", "b"}}, "leader of x (row)": {Key: "x", Kind: kindLeader, InRow: true},
		"semaphore x, 1 of 3 used": {Key: "x", Kind: kindSemaphore, Used: 1, Limit: 3}, "semaphore x, 2 used (row)": {Key: "x", Kind: kindSemaphore, Used: 2, InRow: true},
	} {
		if got := lock.Label(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestKnownTextsInQueries(t *testing.T) {
	for query, want := range map[string][]string{
		"": nil,
		"SELECT pg_try_advisory_lock(1,0) AS t0 /* nightly report */": {"nightly report", "nightly", "report"},
		"SELECT pg_advisory_lock(1) -- nightly\n":                     {"nightly"},
		"-- name: Lock :exec\nSELECT pglock.key('it''s')":             {"name: Lock :exec", "it's", "name:", "Lock", ":exec"},
		"SELECT '', 'cut off by track_activity_query_si":              nil,
		"/* a\nb */ SELECT 'c':: text, 'd'":                           {"a\nb", "c", "d", "a", "b"},
		"/*lock='invoice:42',route=pay*/ SELECT 1":                    {"lock='invoice:42',route=pay", "lock", "invoice:42", "route", "pay"},
	} {
		if got := textsIn(query); !slices.Equal(got, want) {
			t.Errorf("%q has %q, want %q", query, got, want)
		}
	}
}
