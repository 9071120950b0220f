package monitor

import (
	"slices"
	"strings"
	"testing"
)

// guessesFor returns the guesses for a key without a name in a database.
func guessesFor(database string, id identity, given *Dictionary) []string {
	g := &guesser{
		from: sources{given: given, queries: queryTexts{}}, computed: map[string]map[int64][]Guess{},
	}
	lock := newLock(id, database)
	texts := []string{}
	for _, guess := range g.guesses(id, lock) {
		texts = append(texts, guess.String())
	}
	return texts
}

func bigint(number int64) identity { return identity{objsubid: 1, number: number} }

func pair(class, object int32) identity {
	return identity{objsubid: 2, number: int64(class)<<32 | int64(uint32(object))}
}

// The numbers were computed with Python's zlib, hashlib and struct, from what the sources of the tools say.
func TestKnownKeysOfKnownToolsAreGuessed(t *testing.T) {
	if got := strings.Join(guessesFor("shop", bigint(2101699660), &Dictionary{}), ", "); got != "probably golang-migrate migrations of database shop" {
		t.Errorf("the key of golang-migrate's command is guessed to be %q", got)
	}
	for want, id := range map[string]identity{
		"probably golang-migrate migrations of database shop":   bigint(3689236698),
		"probably goose migrations":                             bigint(4097083626),
		"probably Rails migrations of database shop":            bigint(5939944341529942170),
		"probably Prisma migrations":                            bigint(72707369),
		"probably Flyway migrations":                            bigint(77433833903597),
		"probably tern migrations":                              bigint(9628173550095224),
		"probably sqlx migrations of database shop":             bigint(2969972169318647292),
		"probably Atlas migrations":                             bigint(2686470616),
		"probably Atlas computing a diff":                       bigint(361947982),
		"probably Sqitch changes":                               bigint(75474063),
		"probably node-pg-migrate migrations":                   bigint(7241865325823964),
		"probably pg-boss setting up database shop":             bigint(4359492127286643510),
		"probably pg-boss counting the jobs of database shop":   bigint(-4310161552065436547),
		"probably pg_partman maintenance":                       bigint(-988976779),
		"probably pg_repack of the table with OID 16384":        pair(16185446, -2147467264),
		"probably pg_repack of the table with OID 4294967295":   pair(16185446, 2147483647),
		"probably a pgBackRest backup":                          bigint(12340078987004321),
		"probably a lock of Citus, kind 4":                      {objsubid: 4, number: 7},
		"probably a lock of Citus, kind 16":                     {objsubid: 16, number: 7},
		"possibly Airflow migrations, possibly lock 1 of Coder": bigint(1),
		"possibly lock 10 of Coder":                             bigint(10),
		"possibly DistributedLock's lock \"job\"":               pair(-708897793, -1),
		"possibly DistributedLock's lock \"ninechars\"":         pair(-576227748, 2050028262),
		"possibly DistributedLock's lock \"x\"":                 pair(-251658241, -1),
	} {
		if got := strings.Join(guessesFor("shop", id, &Dictionary{}), ", "); got != want {
			t.Errorf("%v is guessed to be %q, want %q", id, got, want)
		}
	}
}

func TestKnownOtherKeysAreNotGuessed(t *testing.T) {
	for _, id := range []identity{
		bigint(0), bigint(11), bigint(-1), bigint(6688477336110245193), bigint(77431708279161 + 1<<31),
		pair(1, 1), pair(0, 4097083626-1<<32), pair(7, -42), pair(-1, -1), pair(16185447, 0),
		{objsubid: 3, number: 1}, {objsubid: 11, number: 1}, {objsubid: 17, number: 1},
	} {
		if got := guessesFor("shop", id, &Dictionary{}); len(got) > 0 {
			t.Errorf("%v is guessed to be %q", id, got)
		}
	}
	if got := guessesFor("other", bigint(5939944341529942170), &Dictionary{}); len(got) > 0 {
		t.Errorf("a key of another database is guessed to be %q", got)
	}
}

func TestKnownGivenNamesAreHashedAsOtherToolsDo(t *testing.T) {
	given := NewDictionary("nightly", "reports")
	for _, c := range []struct {
		id   identity
		want []string
	}{
		{pair(267906906, 0), []string{`probably with_advisory_lock's lock "nightly"`}},
		{bigint(267906906), []string{`probably django-pglocks' lock "nightly"`, `probably Symfony's lock "nightly"`}},
		{bigint(4045383493 - 1<<32), []string{`probably django-pglocks' lock "reports"`}},
		{bigint(4045383493), []string{`probably Symfony's lock "reports"`}},
		{bigint(-8009236108308410153),
			[]string{`probably DistributedLock's lock "nightly"`, `probably pals' lock "nightly"`}},
		{bigint(2192110155630848808), []string{`probably River's lock "nightly"`}},
		{bigint(3131280200), []string{`probably Atlas' lock "nightly"`}},
		{bigint(784550578118357280), []string{`probably GoodJob's lock "nightly"`}},
	} {
		if got := guessesFor("shop", c.id, given); !slices.Equal(got, c.want) {
			t.Errorf("%v is guessed to be %q, want %q", c.id, got, c.want)
		}
	}
}

func TestKnownTheLabelNamesWhatIsLikely(t *testing.T) {
	for _, c := range []struct {
		guesses []Guess
		want    string
	}{
		{nil, "@1"},
		{[]Guess{{Text: "a", Confidence: ConfidencePossible}}, "@1"},
		{[]Guess{{Text: "a", Confidence: ConfidenceProbable}, {Text: "b", Confidence: ConfidenceProbable}, {Text: "c", Confidence: ConfidencePossible}},
			"probably a or b"},
	} {
		if got := (Lock{Key: "@1", Guesses: c.guesses}).Label(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
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
