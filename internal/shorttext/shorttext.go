// Package shorttext puts texts of strangers into errors and logs: names, keys, values found on a server, messages of a
// server. Whatever they contain, and however long they are, the result is short, valid UTF-8 and free of control characters.
// It also makes UTF-8 of texts that a server sends as bytes, at their whole length.
package shorttext

import (
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
	return fmt.Sprintf("%s… (%d bytes)", write(cut(s, most)), len(s))
}

// cut returns the first bytes of s, at most n, and no part of a character.
func cut(s string, n int) string {
	for start := n; start > n-utf8.UTFMax; start-- {
		if utf8.RuneStart(s[start]) {
			return s[:start]
		}
	}
	return s[:n] // it is not UTF-8
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
