package pglock_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// keyVectors are part of the wire format: other programs, and other versions of this one, take the same locks.
var keyVectors = map[string]int64{
	"":               -2039914840885289964,
	"a":              -3848465438864589366,
	"invoice:42":     6688477336110245193,
	"nightly-report": 7440995589958059143,
	"日本語/注文":         -4808533561451899025,
}

func TestKeyNamesHaveTheirNumbersForEver(t *testing.T) {
	t.Parallel()
	for name, want := range keyVectors {
		key := pglock.NewKey(name)
		if key.Int64() != want || key.Name() != name {
			t.Errorf("NewKey(%q) is number %d of %q, want %d", name, key.Int64(), key.Name(), want)
		}
	}
}

func TestKeySQLKnowsTheSameNumbers(t *testing.T) {
	t.Parallel()
	pool := testenv.Installed(t).Pool(t)
	names := []string{
		"x'; --", `back\slash`, "@at", " ", "\n", strings.Repeat("long ", 10_000), "\U0010FFFF", "\u00e9", "e\u0301",
	}
	for name := range keyVectors {
		names = append(names, name)
	}
	for _, name := range names {
		number := must.One[int64](t, pool, "SELECT pglock.key($1)", name)
		if want := pglock.NewKey(name).Int64(); number != want {
			t.Errorf("pglock.key(%.40q) is %d, NewKey has %d", name, number, want)
		}
	}
}

// keyForms are keys and their text forms.
var keyForms = map[string]pglock.Key{
	"invoice:42":            pglock.NewKey("invoice:42"),
	"42":                    pglock.NewKey("42"),
	"7/-42":                 pglock.NewKey("7/-42"),
	"@@home":                pglock.NewKey("@home"),
	"@@42":                  pglock.NewKey("@42"),
	"@@@":                   pglock.NewKey("@@"),
	"日本語/注文":                pglock.NewKey("日本語/注文"),
	" ":                     pglock.NewKey(" "),
	"@6688477336110245193":  pglock.Int64Key(6688477336110245193),
	"@0":                    pglock.Int64Key(0),
	"@-1":                   pglock.Int64Key(-1),
	"@9223372036854775807":  pglock.Int64Key(math.MaxInt64),
	"@-9223372036854775808": pglock.Int64Key(math.MinInt64),
	"@7/-42":                pglock.PairKey(7, -42),
	"@0/0":                  pglock.PairKey(0, 0),
	"@-1/-1":                pglock.PairKey(-1, -1),

	"@2147483647/-2147483648": pglock.PairKey(math.MaxInt32, math.MinInt32),
	"@-2147483648/2147483647": pglock.PairKey(math.MinInt32, math.MaxInt32),
}

func TestKeyIsReadBackAsItIsWritten(t *testing.T) {
	t.Parallel()
	for text, key := range keyForms {
		if got := key.String(); got != text {
			t.Errorf("%q is written %q", text, got)
		}
		parsed, err := pglock.ParseKey(text)
		if err != nil || !keySame(parsed, key) {
			t.Errorf("ParseKey(%q) = %v, %v", text, parsed, err)
		}
	}
}

// keySame reports whether the keys are equal and have the same name.
func keySame(a, b pglock.Key) bool {
	return a.Equal(b) && a.Name() == b.Name() && a.String() == b.String()
}

// What is no name is refused wherever a key comes from.
func TestKeyOneRuleForNames(t *testing.T) {
	t.Parallel()
	l, err := locktest.NewMemory()
	must.Succeed(t, err)
	defer l.Close(t.Context())
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("x", pglock.MaxName+1)} {
		_, parsed := pglock.ParseKey(name)
		_, locked := l.TryLock(t.Context(), pglock.NewKey(name))
		_, asked := l.Holders(t.Context(), pglock.NewKey(name))
		for _, err := range []error{
			parsed, locked, asked, pglock.NewKey(name).Check(), new(pglock.Key).UnmarshalText([]byte(name)),
			pglock.LockTx(t.Context(), nil, pglock.NewKey(name)),
		} {
			if !errors.Is(err, pglock.ErrInvalidKey) {
				t.Errorf("%.9q: %v", name, err)
			}
		}
	}
}

func TestKeyAMalformedKeyIsRefused(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"":                        "empty (a key is a name, @BIGINT, or @CLASS/OBJECT)",
		"@":                       `"" is not a number`,
		"@x":                      `written with two: "@@x"`,
		"@+1":                     `"+1" is not a number`,
		"@-0":                     `"-0" is not a number`,
		"@00":                     `"00" is not a number`,
		"@0x1":                    `"0x1" is not a number`,
		"@1_000":                  `"1_000" is not a number`,
		"@1.0":                    `"1.0" is not a number`,
		"@ 1":                     `" 1" is not a number`,
		"@1 ":                     `"1 " is not a number`,
		"@-":                      `"-" is not a number`,
		"@１":                      `"１" is not a number`,
		"@9223372036854775808":    "9223372036854775808 is not within 64 bits",
		"@-9223372036854775809":   "-9223372036854775809 is not within 64 bits",
		"@/":                      `"" is not a number`,
		"@1/":                     `"" is not a number`,
		"@/1":                     `"" is not a number`,
		"@1/2/3":                  `"2/3" is not a number`,
		"@1/x":                    `"x" is not a number`,
		"@2147483648/0":           "2147483648 is not within 32 bits",
		"@0/-2147483649":          "-2147483649 is not within 32 bits",
		"@6688477336110245193/42": "6688477336110245193 is not within 32 bits",
	} {
		key, err := pglock.ParseKey(text)
		if !errors.Is(err, pglock.ErrInvalidKey) || !strings.Contains(err.Error(), why) || key.ID() != (pglock.KeyID{}) {
			t.Errorf("ParseKey(%q) = %v, %v; want %s", text, key, err, why)
		}
	}
}

func TestKeyTheZeroKeyIsNoKey(t *testing.T) {
	t.Parallel()
	var zero pglock.Key
	if zero.ID() != (pglock.KeyID{}) || zero.Name() != "" || zero.Int64() != 0 || zero.String() != "@invalid" {
		t.Errorf("it is %v: %v", zero, zero.ID())
	}
	if zero.Equal(pglock.Int64Key(0)) || zero.Equal(pglock.PairKey(0, 0)) {
		t.Error("it equals a key")
	}
	if _, _, ok := zero.Pair(); ok {
		t.Error("it is a pair")
	}
	if _, err := pglock.ParseKey(zero.String()); !errors.Is(err, pglock.ErrInvalidKey) {
		t.Errorf("its text is read back: %v", err)
	}
	if text, err := zero.MarshalText(); !errors.Is(err, pglock.ErrInvalidKey) || text != nil {
		t.Errorf("it is marshalled as %q, %v", text, err)
	}
}

func TestKeyNamesHaveABound(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("n", pglock.MaxName)
	for text, name := range map[string]string{longest: longest, "@@" + longest[1:]: "@" + longest[1:]} {
		key, err := pglock.ParseKey(text)
		if err != nil || key.Name() != name {
			t.Errorf("the longest name: %v", err)
		}
	}
	for _, name := range []string{longest + "n", strings.Repeat("n", 20<<20)} {
		_, parse := pglock.ParseKey(name)
		_, escaped := pglock.ParseKey("@@" + name)
		_, raw := pglock.ParseKey("@" + strings.Repeat("1", len(name)))
		_, marshal := pglock.NewKey(name).MarshalText()
		for what, err := range map[string]error{
			"ParseKey": parse, "ParseKey of @@": escaped, "ParseKey of @": raw, "MarshalText": marshal,
			"LockTx": pglock.LockTx(t.Context(), nil, pglock.NewKey(name)),
		} {
			if !errors.Is(err, pglock.ErrInvalidKey) || !strings.Contains(err.Error(), strconv.Itoa(pglock.MaxName)) ||
				len(err.Error()) > 300 {
				t.Errorf("%s of a name of %d bytes: %.400v", what, len(name), err)
			}
		}
	}
}

func TestKeyfIsTheKeyOfTheFormattedName(t *testing.T) {
	if got, want := pglock.Keyf("invoice:%d", 42), pglock.NewKey("invoice:42"); !got.Equal(want) || got.Name() != want.Name() {
		t.Errorf("it is %v, want %v", got, want)
	}
}

func TestKeysAreComparedByWhatTheyLock(t *testing.T) {
	t.Parallel()
	if reflect.TypeFor[pglock.Key]().Comparable() {
		t.Error("keys compare with ==")
	}
	name, raw := pglock.NewKey("invoice:42"), pglock.Int64Key(6688477336110245193)
	if !name.Equal(raw) || name.ID() != raw.ID() {
		t.Error("a name and its number are two locks")
	}
	pair := pglock.PairKey(7, -42)
	packed := pglock.Int64Key(pair.Int64())
	if pair.Equal(packed) || pair.ID() == packed.ID() {
		t.Error("a pair and a bigint are one lock")
	}
	if class, object, ok := pair.Pair(); class != 7 || object != -42 || !ok || pair.Int64() != 7<<32|(1<<32-42) {
		t.Errorf("the pair is (%d, %d), %t, packed as %d", class, object, ok, pair.Int64())
	}
	if _, _, ok := packed.Pair(); ok {
		t.Error("a bigint is a pair")
	}
	if pair.Equal(pglock.PairKey(-42, 7)) {
		t.Error("a pair has no order")
	}
}

func TestKeyNewKeyDoesNotAllocate(t *testing.T) {
	names := []string{"", "invoice:42", strings.Repeat("x", 32), strings.Repeat("long ", 1000)}
	var sink pglock.Key
	for _, name := range names {
		if n := testing.AllocsPerRun(100, func() { sink = pglock.NewKey(name) }); n != 0 {
			t.Errorf("NewKey of %d bytes allocates %v times", len(name), n)
		}
	}
	if sink.Name() != names[len(names)-1] {
		t.Errorf("the last key is %v", sink)
	}
}

// FuzzParseKey: whatever can be read is written as it was, and names that may be stored and do not begin with @ can always
// be read.
func FuzzParseKey(f *testing.F) {
	for text := range keyForms {
		f.Add(text)
	}
	for _, text := range []string{"", "@", "@+1", "@-0", "@007", "@1/", "@/1", "@1/2/3", "@9223372036854775808"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := pglock.ParseKey(text)
		if err != nil {
			refusable := text == "" || strings.HasPrefix(text, "@") || len(text) > pglock.MaxName ||
				!utf8.ValidString(text) || strings.Contains(text, "\x00")
			if !errors.Is(err, pglock.ErrInvalidKey) || !refusable {
				t.Fatalf("ParseKey(%q): %v", text, err)
			}
			return
		}
		if key.String() != text {
			t.Fatalf("ParseKey(%q) is written %q", text, key)
		}
	})
}

// FuzzKeyString: every key is written as something that is read back as the same lock.
func FuzzKeyString(f *testing.F) {
	f.Add("invoice:42", int64(6688477336110245193), int32(7), int32(-42))
	f.Add("", int64(0), int32(0), int32(0))
	f.Add("@", int64(-1), int32(-1), int32(-1))
	f.Add("@@7/-42", int64(math.MinInt64), int32(math.MinInt32), int32(math.MaxInt32))
	f.Add("\xff\x00", int64(math.MaxInt64), int32(math.MaxInt32), int32(math.MinInt32))
	f.Fuzz(func(t *testing.T, name string, number int64, class, object int32) {
		for _, key := range []pglock.Key{pglock.NewKey(name), pglock.Int64Key(number), pglock.PairKey(class, object)} {
			if key.Check() != nil {
				continue
			}
			parsed, err := pglock.ParseKey(key.String())
			if err != nil || !keySame(parsed, key) {
				t.Fatalf("%#v is written %q and read back as %#v, %v", key, key, parsed, err)
			}
			encoded, err := json.Marshal(key)
			must.Succeed(t, err)
			var decoded pglock.Key
			if err := json.Unmarshal(encoded, &decoded); err != nil || !decoded.Equal(key) {
				t.Fatalf("%q is encoded as %s and decoded as %v, %v", key, encoded, decoded, err)
			}
		}
	})
}
