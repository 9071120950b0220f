// Package keytext makes the texts that values have in names of keys, and recognizes them. All of it is part of the wire
// format and never changes.
package keytext

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Escape begins the escape of a special byte of a text: a percent sign and two digits of upper-case hexadecimal.
const Escape = '%'

// Specials are the bytes of a text that are escaped. The others, including control characters, are not.
const Specials = "%:@{}"

// EscapeOf returns the escape of a special byte.
func EscapeOf(b byte) string { return fmt.Sprintf("%c%02X", Escape, b) }

var escaper = func() *strings.Replacer {
	var pairs []string
	for _, s := range []byte(Specials) {
		pairs = append(pairs, string(s), EscapeOf(s))
	}
	return strings.NewReplacer(pairs...)
}()

// EncodeText returns the text with %, :, @, { and } escaped. Bytes that PostgreSQL does not accept as text are an
// error, since SQL could not make the same name from them.
func EncodeText(s string) (string, error) {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return "", errors.New("it has a NUL byte, which PostgreSQL's text cannot contain")
	case !utf8.ValidString(s):
		return "", errors.New("it is not UTF-8")
	case !strings.ContainsAny(s, Specials):
		return s, nil
	}
	return escaper.Replace(s), nil
}

// EncodeInt returns the number in decimal.
func EncodeInt(n int64) string { return strconv.FormatInt(n, 10) }

// EncodeBool returns "true" or "false".
func EncodeBool(b bool) string { return strconv.FormatBool(b) }

// EncodeUUID returns the standard form in lower case.
func EncodeUUID(u [16]byte) string {
	var text [36]byte
	hex.Encode(text[:8], u[:4])
	hex.Encode(text[9:13], u[4:6])
	hex.Encode(text[14:18], u[6:8])
	hex.Encode(text[19:23], u[8:10])
	hex.Encode(text[24:], u[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// The bounds of timestamptz: from 4714-11-24 BC until before 294277-01-01.
const firstSecond, afterLastSecond = -210866803200, 9224318016000

// EncodeTime returns the microseconds since 1970 in UTC, rounded down as PostgreSQL's drivers do. A time beyond the
// bounds of timestamptz is an error.
func EncodeTime(at time.Time) (string, error) {
	seconds, micros := at.Unix(), at.Nanosecond()/1000
	if seconds < firstSecond || seconds >= afterLastSecond {
		return "", fmt.Errorf("the time %v is beyond the bounds of timestamptz", at)
	}
	if seconds < 0 && micros > 0 { // -1 s and 1 µs are -0.999999 s
		seconds, micros = seconds+1, micros-1_000_000
	}
	switch {
	case seconds == 0:
		return strconv.Itoa(micros), nil
	case micros < 0:
		micros = -micros
	}
	return fmt.Sprintf("%d%06d", seconds, micros), nil
}
