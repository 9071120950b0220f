// Package bytetext makes printable UTF-8 of what a server sends as text. Texts of other databases, and of a database whose encoding
// is SQL_ASCII, are bytes in any encoding.
package bytetext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Unescape reads bytes in the escape format of PostgreSQL's bytea, in which a backslash is doubled, and three octal digits behind
// one are a byte, and cleans them.
func Unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var raw []byte
	for i := 0; i < len(text); i++ {
		if n, err := strconv.ParseUint(text[min(i+1, len(text)):min(i+4, len(text))], 8, 8); text[i] == '\\' && err == nil && i+3 < len(text) {
			raw, i = append(raw, byte(n)), i+3
			continue
		}
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		raw = append(raw, text[i])
	}
	return Clean(string(raw))
}

// Clean returns the text with each byte that is not part of a character of UTF-8 written as \xNN.
func Clean(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var clean strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&clean, `\x%02x`, rest[0])
		} else {
			clean.WriteRune(r)
		}
		rest = rest[size:]
	}
	return clean.String()
}
