// Package shorttext puts texts of strangers into errors and logs: names, keys, values found on a server, messages of a
// server. Whatever they contain, and however long they are, the result is short, valid UTF-8 and free of control characters.
// It also makes UTF-8 of texts that a server sends as bytes, at their whole length.
package shorttext

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxValue is how many bytes of a value are shown.
	MaxValue = 100
	// MaxMessage is how many bytes of a message are shown. Messages explain something, and some have several parts.
	MaxMessage = 2000
)

// Quote returns s in quotes. Of a long s it returns the beginning, and the length.
func Quote(s string) string { return short(s, MaxValue, strconv.Quote) }

// Value returns s without quotes around it, in the same way.
func Value(s string) string { return short(s, MaxValue, printable) }

// Message returns the beginning of a message. Line breaks and tabs stay.
func Message(text string) string { return short(text, MaxMessage, printable) }

func short(s string, most int, write func(string) string) string {
	if len(s) <= most {
		return write(s)
	}
	return fmt.Sprintf("%s… (%d bytes)", write(strings.ToValidUTF8(s[:most], "")), len(s)) // no part of a character
}

// printable escapes what a terminal or a log could misunderstand.
func printable(s string) string {
	quoted := strconv.QuoteToGraphic(s)
	return harmless.Replace(quoted[1 : len(quoted)-1])
}

// harmless undoes those escapes of Go's quotes that need none here.
var harmless = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\t`, "\t")

// Error returns err, with a text that is short and printable.
func Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if short := Message(text); short != text {
		return &shortened{err, short}
	}
	return err
}

// shortened is an error with a shorter text.
type shortened struct {
	error
	text string
}

func (e *shortened) Error() string { return e.text }
func (e *shortened) Unwrap() error { return e.error }

// Clean returns a text with each byte that is not part of a character of UTF-8 written as \xNN. Texts of other databases, and
// of a database whose encoding is SQL_ASCII, are bytes in any encoding, and two of them may differ in such a byte only.
func Clean(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var clean strings.Builder
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			fmt.Fprintf(&clean, `\x%02x`, text[i])
		} else {
			clean.WriteRune(r)
		}
	}
	return clean.String()
}

// Hex returns the cleaned text whose bytes are given in hexadecimal digits.
func Hex(digits string) string {
	text, err := hex.DecodeString(digits)
	if err != nil {
		return digits
	}
	return Clean(string(text))
}
