package keytemplate

import (
	"fmt"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/keytext"
)

// Type is a type of PostgreSQL whose values have one canonical text.
type Type uint8

// The types. The zero Type is that of a parameter without a type.
const (
	Unknown Type = iota
	SmallInt
	Integer
	BigInt
	Text
	UUID
	Boolean
	TimestampTZ
)

var typeNames = [...]string{Unknown: "unknown", SmallInt: "smallint", Integer: "integer", BigInt: "bigint",
	Text: "text", UUID: "uuid", Boolean: "boolean", TimestampTZ: "timestamptz"}

// String returns the type's name in SQL.
func (t Type) String() string { return typeNames[t] }

// IsInteger reports whether it is one of the integers, which share their text.
func (t Type) IsInteger() bool { return t == SmallInt || t == Integer || t == BigInt }

var synonyms = map[string]Type{
	"smallint": SmallInt, "int2": SmallInt, "smallserial": SmallInt, "serial2": SmallInt,
	"integer": Integer, "int": Integer, "int4": Integer, "serial": Integer, "serial4": Integer,
	"bigint": BigInt, "int8": BigInt, "bigserial": BigInt, "serial8": BigInt,
	"text": Text, "varchar": Text, "character varying": Text, "string": Text,
	"uuid": UUID, "boolean": Boolean, "bool": Boolean,
	"timestamptz": TimestampTZ, "timestamp with time zone": TimestampTZ,
}

// reasons say what is wrong with types that users are likely to try.
var reasons = map[string]string{
	"timestamp":                   "it has no time zone, so it is not a point in time: use timestamptz",
	"timestamp without time zone": "it has no time zone, so it is not a point in time: use timestamptz",
	"date":                        "its text depends on DateStyle: pass its text, as in to_char(day, 'YYYY-MM-DD')",
	"numeric":                     "1.0 and 1.00 are equal but have different texts: use bigint or text",
	"bpchar":                      "it is padded with spaces: use text",
	"citext":                      "equal values have several texts: use text and lower()",
	"float4":                      "its text depends on the server's settings: use bigint or text",
	"float8":                      "its text depends on the server's settings: use bigint or text",
}

// ParseType reads the name of a type as SQL or sqlc writes it.
func ParseType(name string) (Type, error) {
	plain := strings.Join(strings.Fields(strings.ToLower(name)), " ")
	plain = strings.TrimPrefix(plain, "pg_catalog.")
	if t, ok := synonyms[plain]; ok {
		return t, nil
	}
	if plain, _, ok := strings.Cut(plain, "("); ok && synonyms[strings.TrimSpace(plain)] == Text {
		return Text, nil
	}
	reason := reasons[plain]
	if reason == "" {
		reason = "its values have no canonical text: use one of bigint, integer, smallint, text, uuid, boolean, timestamptz"
	}
	return Unknown, fmt.Errorf("type %q cannot be part of a key: %s", name, reason)
}

// Widest returns the type whose values include those of both; ok is false if there is none.
func Widest(a, b Type) (wide Type, ok bool) {
	switch {
	case a == b || b == Unknown:
		return a, true
	case a == Unknown:
		return b, true
	case a.IsInteger() && b.IsInteger():
		return max(a, b), true
	}
	return Unknown, false
}

// endsBefore reports whether next marks the end of a value's text, whatever the value.
func (t Type) endsBefore(next byte) bool {
	switch t {
	case SmallInt, Integer, BigInt, TimestampTZ:
		return next < '0' || next > '9'
	case Text:
		return next != keytext.Escape && strings.IndexByte(keytext.Specials, next) >= 0
	case Unknown:
		return true // checked when the type is known
	}
	return true // the other types have texts with a recognizable end
}
