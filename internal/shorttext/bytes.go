package shorttext

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Unescape reads bytes in the escape format of PostgreSQL's bytea, in which a backslash is doubled, and three octal digits
// behind one are a byte, and cleans them.
func Unescape(text string) string {
	return Clean(escape.ReplaceAllStringFunc(text, func(e string) string {
		n, err := strconv.ParseUint(e[1:], 8, 8)
		if err != nil {
			return `\`
		}
		return string([]byte{byte(n)})
	}))
}

var escape = regexp.MustCompile(`\\(\\|[0-3][0-7][0-7])`)

// Clean returns a text with each byte that is not part of a character of UTF-8 written as \xNN. Texts of other databases, and
// of a database whose encoding is SQL_ASCII, are bytes in any encoding.
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
