package keytemplate

import (
	"fmt"
	"strings"
)

// Type is a type of PostgreSQL whose values have one canonical text.
type Type uint8

// The types. Parameters of locks have the zero Type.
const (
	SmallInt Type = iota + 1
	Integer
	BigInt
	Text
	UUID
	Boolean
	TimestampTZ
)

var typeNames = [...]string{SmallInt: "smallint", Integer: "integer", BigInt: "bigint",
	Text: "text", UUID: "uuid", Boolean: "boolean", TimestampTZ: "timestamptz"}

// String returns the type's name in SQL.
func (t Type) String() string { return typeNames[t] }

// IsInteger reports whether it is one of the integers, which share their text.
func (t Type) IsInteger() bool { return t >= SmallInt && t <= BigInt }

// Includes reports whether all values of the other type are values of t.
func (t Type) Includes(other Type) bool {
	return t == other || t.IsInteger() && other.IsInteger() && t > other
}

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
		reason = "its values have no canonical text: use one of bigint, integer, smallint, text, uuid, boolean, timestamptz " +
			"(an enum is cast twice: (@mood::text)::mood)"
	}
	return 0, fmt.Errorf("type %q cannot be part of a key: %s", name, reason)
}

// Specials are the bytes of a text that are escaped in names: as a percent sign and two digits of upper-case hexadecimal.
// The others, including control characters, are not.
const Specials = "%:@{}"

// pattern matches the texts of the type's values.
func (t Type) pattern() string {
	switch t {
	case Text:
		return `(?:[^%:@{}]|%25|%3A|%40|%7B|%7D)*`
	case UUID:
		return `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`
	case Boolean:
		return `true|false`
	}
	return `0|-?[1-9][0-9]*`
}

// bytes are those that the texts of the type's values consist of.
func (t Type) bytes() func(b byte) bool {
	in := "-0123456789"
	switch t {
	case Text:
		return func(b byte) bool { return b == '%' || strings.IndexByte(Specials, b) < 0 }
	case UUID:
		in = "-0123456789abcdef"
	case Boolean:
		in = "truefals"
	}
	return func(b byte) bool { return strings.IndexByte(in, b) >= 0 }
}

// endsBefore reports whether next marks the end of a value's text, whatever the value.
func (t Type) endsBefore(next byte) bool {
	switch t {
	case Text:
		return !t.bytes()(next)
	case UUID, Boolean:
		return true // their texts have a recognizable end
	}
	return next < '0' || next > '9'
}
