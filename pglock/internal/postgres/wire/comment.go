package wire

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Bounds of a comment. PostgreSQL shows the first track_activity_query_size bytes of a statement, by default 1,023.
const (
	longestComment  = 900
	longestTagName  = 64
	longestTagValue = 200 // before it is encoded
)

// leadingTags come first, since tags for which there is no room are left out.
var leadingTags = []string{"key", "more", "token", "traceparent", "controller", "action"}

// Comment writes tags as sqlcommenter does (https://google.github.io/sqlcommenter/spec/), to be put before a
// statement: a comment of pairs with URL-encoded values, which cannot end the comment. Tags whose name is not made of
// ASCII letters, digits and _-.: are left out, longer values are cut. It is empty without tags.
func Comment(tags map[string]string) string {
	order := slices.Clone(leadingTags)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if !slices.Contains(leadingTags, name) {
			order = append(order, name)
		}
	}
	var pairs []string
	length := len("/**/ ")
	for _, name := range order {
		value, ok := tags[name]
		if !ok || !isTagName(name) {
			continue
		}
		pair := encodeTag(name) + "='" + encodeTag(strings.ToValidUTF8(value[:min(len(value), longestTagValue)], "")) + "'"
		if length+len(pair)+1 <= longestComment {
			pairs = append(pairs, pair)
			length += len(pair) + 1
		}
	}
	if len(pairs) == 0 {
		return ""
	}
	return "/*" + strings.Join(pairs, ",") + "*/ "
}

// encodeTag leaves letters, digits and -_.~ as they are, and writes every other byte as %XX.
func encodeTag(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func isTagName(name string) bool {
	const others = "_-.:"
	return name != "" && len(name) <= longestTagName && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(others, r)
	})
}
