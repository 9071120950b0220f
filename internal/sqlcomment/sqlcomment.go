// Package sqlcomment reads tags in comments of SQL statements, in the form of sqlcommenter
// (https://google.github.io/sqlcommenter/spec/): key='value' pairs, URL-encoded and separated by commas.
package sqlcomment

import (
	"net/url"
	"strings"
)

// Limits of what is read.
const (
	maxTags  = 32
	maxValue = 512
)

// Read returns the tags of the last comment of a statement that consists of tags. If there is none, the map is empty, not
// nil.
func Read(query string) map[string]string {
	tags := map[string]string{}
	for rest := query; ; {
		_, after, ok := strings.Cut(rest, "/*")
		if !ok {
			return tags
		}
		comment, next, ok := strings.Cut(after, "*/")
		if !ok {
			return tags
		}
		if found := Parse(strings.TrimSpace(comment)); len(found) > 0 {
			tags = found
		}
		rest = next
	}
}

// Parse returns the tags of the text of a comment, or nil if it does not consist of tags.
func Parse(comment string) map[string]string {
	tags := map[string]string{}
	for comment != "" {
		key, rest, ok := strings.Cut(comment, "='")
		if !ok || len(tags) == maxTags {
			return nil
		}
		value, rest, ok := readValue(rest)
		key, keyErr := url.PathUnescape(strings.TrimSpace(key))
		value, valueErr := url.PathUnescape(value)
		if !ok || keyErr != nil || valueErr != nil || !isName(key) || len(value) > maxValue {
			return nil
		}
		tags[key] = value
		rest = strings.TrimSpace(rest)
		if comment, ok = strings.CutPrefix(rest, ","); !ok && rest != "" {
			return nil
		}
	}
	return tags
}

// readValue reads up to the quote that ends a value. Quotes in the value are escaped with a backslash.
func readValue(text string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\'':
			return b.String(), text[i+1:], true
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}

// isName reports whether name can be the name of a tag.
func isName(name string) bool {
	const others, longest = "_-.:", 64
	return name != "" && len(name) <= longest && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(others, r)
	})
}
