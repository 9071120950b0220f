package querylock

import (
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Value is the value of a parameter, in its canonical text. The zero Value is that of an empty text.
type Value struct {
	text    string
	invalid bool
}

// Int is the value of a bigint, an integer or a smallint.
func Int[T ~int16 | ~int32 | ~int64](n T) Value { return Value{text: keytemplate.EncodeInt(int64(n))} }

// Text is the value of a text. Text that PostgreSQL cannot store (with a NUL byte, or not UTF-8) makes no key.
func Text(s string) Value {
	text, err := keytemplate.EncodeText(s)
	return Value{text: text, invalid: err != nil}
}

// UUID is the value of a uuid.
func UUID(u [16]byte) Value { return Value{text: keytemplate.EncodeUUID(u)} }

// Bool is the value of a boolean.
func Bool(b bool) Value { return Value{text: keytemplate.EncodeBool(b)} }

// Time is the value of a timestamptz: the point in time, whatever the location, in whole microseconds. A time that
// PostgreSQL cannot store makes no key.
func Time(at time.Time) Value {
	text, err := keytemplate.EncodeTime(at)
	return Value{text: text, invalid: err != nil}
}

// Key returns the key of the template with the values in the places of its parameters. It is the zero Key, for which
// all functions that take a key return [pglock.ErrInvalidKey], if the name has more than 1024 bytes, a value is
// invalid, or the numbers of parameters and values differ.
func Key(template string, values ...Value) pglock.Key {
	var name strings.Builder
	for rest := template; ; {
		text, param, found := strings.Cut(rest, "{")
		name.WriteString(text)
		if !found {
			break
		}
		_, after, closed := strings.Cut(param, "}")
		if !closed || len(values) == 0 || values[0].invalid {
			return pglock.Key{}
		}
		name.WriteString(values[0].text)
		values, rest = values[1:], after
	}
	if len(values) > 0 || name.Len() > keytemplate.MaxName {
		return pglock.Key{}
	}
	return pglock.NewKey(name.String())
}
