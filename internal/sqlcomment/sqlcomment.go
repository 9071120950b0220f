// Package sqlcomment writes and reads tags in comments of SQL statements, in the form of sqlcommenter
// (https://google.github.io/sqlcommenter/spec/): key='value' pairs, URL-encoded and separated by commas.
package sqlcomment

import "strings"

// isName reports whether name can be the name of a tag.
func isName(name string) bool {
	const others, longest = "_-.:", 64
	return name != "" && len(name) <= longest && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(others, r)
	})
}
