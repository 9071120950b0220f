package pglock

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Key names a lock. It is a small immutable value; make one with [NewKey], [Int64Key], [PairKey] or [ParseKey]. The
// zero Key is invalid, and so is a name that is empty, has more than [MaxName] bytes, is not UTF-8, or contains NUL:
// functions that take a Key return [ErrInvalidKey] for these.
//
// PostgreSQL knows advisory locks by number only, in two spaces that do not overlap: one bigint, or two integers
// (https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS). Two Keys with different names can be
// the same lock, so Keys do not compare with ==: use [Key.Equal], and [Key.ID] as a map key.
type Key struct {
	_ [0]func() // not comparable
	k driver.Key
}

// MaxName is the maximal length of a key's name in bytes, for locks as for what is recorded under a name: in the
// registry, which the monitor reads, and in the tables of schedule, once and ratelimit. Functions that take a Key
// return [ErrInvalidKey] for longer names.
const MaxName = 1024

// KeyID is a key's identity, its space and number. It is comparable, and the zero KeyID is not a
// key.
type KeyID = driver.KeyID

// NewKey returns the key of a name: the bigint made of the first 8 bytes, big-endian, of the name's SHA-256. The
// function pglock.key(text) computes the same number in SQL, and this mapping never changes.
//
// The key of a string that is no name is refused where it is used. NewKey does not allocate.
//
// With 64 bits a collision by chance is likely only among billions of names (a chance of one in a million at six
// million names). An attacker who chooses both names finds two with one number in minutes, though not a second name for
// a given number. If strangers choose names, such as file or account names, they can make two of their locks wait for
// each other. If that matters, lock an HMAC of their part of the name under a key that they do not know:
//
//	mac := hmac.New(sha256.New, secret)
//	mac.Write([]byte(uploaded))
//	key := pglock.NewKey("upload:" + hex.EncodeToString(mac.Sum(nil)))
func NewKey(name string) Key {
	// Sum256 does not keep or change its argument, so it may read the string's own bytes.
	sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(name), len(name)))
	number := int64(binary.BigEndian.Uint64(sum[:8]))
	return Key{k: driver.Key{KeyID: KeyID{Space: driver.SpaceBigint, Number: number}, Name: name, Named: true}}
}

// Keyf returns the key of a name formatted as by [fmt.Sprintf]:
//
//	key := pglock.Keyf("invoice:%d", id)
//
// Different arguments can give the same name, and so the same lock, if one of them may contain the format's separators:
// "%s:%s" of "a:b", "c" and of "a", "b:c". Keys that cmd/sqlc-gen-pglock or `pglockdev generate` make from a template
// do not have this problem.
func Keyf(format string, args ...any) Key { return NewKey(fmt.Sprintf(format, args...)) }

// Int64Key returns the key that PostgreSQL's one-argument functions know as n.
func Int64Key(n int64) Key {
	return Key{k: driver.Key{KeyID: KeyID{Space: driver.SpaceBigint, Number: n}}}
}

// PairKey returns the key that PostgreSQL's two-argument functions know as (class, object). It differs from every
// bigint key.
func PairKey(class, object int32) Key {
	return Key{k: driver.Key{KeyID: driver.PairID(class, object)}}
}

// ParseKey parses the text form of a key, for command lines and configuration files:
//
//	invoice:42              the name "invoice:42"
//	@6688477336110245193    the bigint 6688477336110245193
//	@7/-42                  the pair (7, -42)
//	@@home                  the name "@home"
//
// Numbers are decimal, without a plus sign or leading zeros. Anything else after a single @, and what is no name (see
// [Key]), matches [ErrInvalidKey].
func ParseKey(s string) (Key, error) {
	rest, at := strings.CutPrefix(s, "@")
	switch {
	case len(s) > len("@")+MaxName:
		return Key{}, fmt.Errorf("pglock: %w", tooLong(s))
	case s == "":
		return Key{}, fmt.Errorf("pglock: %w: empty (a key is a name, @BIGINT, or @CLASS/OBJECT)", ErrInvalidKey)
	case !at:
		return parseName(s)
	case strings.HasPrefix(rest, "@"):
		return parseName(rest)
	}
	if class, object, pair := strings.Cut(rest, "/"); pair {
		c, errC := parseNumber(class, 32)
		o, errO := parseNumber(object, 32)
		if err := cmp.Or(errC, errO); err != nil {
			return Key{}, malformed(s, err)
		}
		return PairKey(int32(c), int32(o)), nil
	}
	n, err := parseNumber(rest, 64)
	if err != nil {
		return Key{}, malformed(s, err)
	}
	return Int64Key(n), nil
}

func parseName(name string) (Key, error) {
	key := NewKey(name)
	if err := key.check(); err != nil {
		return Key{}, fmt.Errorf("pglock: %w", err)
	}
	return key, nil
}

// parseNumber parses only what strconv.FormatInt writes, so that every raw key has one spelling.
func parseNumber(s string, bits int) (int64, error) {
	n, err := strconv.ParseInt(s, 10, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is not within %d bits", shorttext.Value(s), bits)
	case err != nil || strconv.FormatInt(n, 10) != s:
		return 0, fmt.Errorf("%s is not a number in plain decimal", shorttext.Quote(s))
	}
	return n, nil
}

func malformed(s string, err error) error {
	return fmt.Errorf("pglock: %w: %s: %w (want @BIGINT or @CLASS/OBJECT; "+
		"a name that begins with @ is written with two: %s)", ErrInvalidKey, shorttext.Quote(s), err, shorttext.Quote("@"+s))
}

// ID returns the key's identity, for maps and ==.
func (k Key) ID() KeyID { return k.k.KeyID }

// Equal reports whether both are the same lock in PostgreSQL, whatever their names. (On Redis a lock's identity is its
// name: there a named key and the raw key of the same number are two locks.)
func (k Key) Equal(other Key) bool { return k.ID() == other.ID() }

// Name returns the name the key was made from; it is empty for raw keys.
func (k Key) Name() string {
	if k.ID() == (KeyID{}) {
		return ""
	}
	return k.k.Name
}

// Int64 returns the number that the lock has in its space; a pair packs as class<<32 | uint32(object).
func (k Key) Int64() int64 { return k.k.Number }

// Pair returns the two integers of a pair key; ok is false for bigint keys.
func (k Key) Pair() (class, object int32, ok bool) { return k.k.Pair() }

// String returns the form that [ParseKey] reads back as an equal key, with the same name. The zero Key comes out as
// "@invalid", which ParseKey refuses, and the empty name as its number.
func (k Key) String() string { return k.k.String() }

// MarshalText implements [encoding.TextMarshaler] with [Key.String]; an invalid Key is an error.
func (k Key) MarshalText() ([]byte, error) {
	if err := k.check(); err != nil {
		return nil, fmt.Errorf("pglock: marshal key: %w", err)
	}
	return []byte(k.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseKey].
func (k *Key) UnmarshalText(text []byte) error {
	parsed, err := ParseKey(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

// Check returns nil if the key can be locked, and otherwise an error that matches [ErrInvalidKey] and says why not. The
// functions that take a Key do the same; Check is for a key that another function has made, before it is used.
func (k Key) Check() error {
	if err := k.check(); err != nil {
		return fmt.Errorf("pglock: %w", err)
	}
	return nil
}

// check refuses keys that are invalid, and names that are too long. An invalid key may have the reason as its name.
func (k Key) check() error {
	switch {
	case k.ID() == KeyID{} && k.k.Name != "":
		return fmt.Errorf("%w: %s", ErrInvalidKey, k.k.Name)
	case k.ID() == KeyID{}:
		return fmt.Errorf("%w: the zero Key (make keys with NewKey, Int64Key, PairKey or ParseKey)", ErrInvalidKey)
	}
	name := k.k.Name
	switch {
	case len(name) > MaxName:
		return tooLong(name)
	case k.k.Named && name == "":
		return fmt.Errorf("%w: the name is empty (was a variable not set?)", ErrInvalidKey)
	case !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: the name %s is not valid UTF-8, or contains NUL (lock a hash of it)", ErrInvalidKey, shorttext.Quote(name))
	}
	return nil
}

func tooLong(name string) error {
	return fmt.Errorf("%w: a name has at most %d bytes, this one %d (lock a hash of it)",
		ErrInvalidKey, MaxName, len(name))
}

// driverKeys converts keys to the form that backends know.
func driverKeys(keys []Key) []driver.Key {
	converted := make([]driver.Key, len(keys))
	for i, key := range keys {
		converted[i] = key.k
	}
	return converted
}

// publicKeys is the inverse of driverKeys.
func publicKeys(keys []driver.Key) []Key {
	public := make([]Key, len(keys))
	for i, key := range keys {
		public[i] = Key{k: key}
	}
	return public
}
