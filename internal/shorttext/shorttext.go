// Package shorttext puts texts of strangers into errors and logs: names, keys, values found on a server, messages of a
// server. Whatever they contain, and however long they are, the result is short, valid UTF-8 and free of control characters.
package shorttext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxValue is how many bytes of a value are shown.
	MaxValue = 100
	// MaxMessage is how many bytes of a message are shown. Messages explain something, and some have several parts.
	MaxMessage = 2000
)

// Quote returns s in quotes. Of a long s it returns the beginning, and the length.
func Quote(s string) string {
	if len(s) <= MaxValue {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(cut(s, MaxValue)), len(s))
}

// Value returns s without quotes around it, in the same way.
func Value(s string) string {
	if len(s) <= MaxValue {
		return printable(s)
	}
	return fmt.Sprintf("%s… (%d bytes)", printable(cut(s, MaxValue)), len(s))
}

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

// Message returns the beginning of a message. Line breaks and tabs stay.
func Message(text string) string {
	if len(text) <= MaxMessage {
		return printable(text)
	}
	return fmt.Sprintf("%s… (%d bytes)", printable(cut(text, MaxMessage)), len(text))
}

// shortened is an error with a shorter text.
type shortened struct {
	error
	text string
}

func (e *shortened) Error() string { return e.text }
func (e *shortened) Unwrap() error { return e.error }

// cut returns the first bytes of s, at most n, and no part of a character.
func cut(s string, n int) string {
	start := n
	for start > n-utf8.UTFMax && !utf8.RuneStart(s[start]) {
		start--
	}
	if utf8.RuneStart(s[start]) { // else it is not UTF-8
		n = start
	}
	return s[:n]
}

// printable escapes what a terminal or a log could misunderstand.
func printable(s string) string {
	clean := func(r rune) bool { return unicode.IsGraphic(r) || r == '\n' || r == '\t' }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !clean(r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if clean(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(s[:size])
		} else {
			quoted := strconv.Quote(s[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}
