package sqlcomment

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Bounds of a comment. PostgreSQL shows the first track_activity_query_size bytes of a statement, by default 1,023.
const (
	longestComment = 900
	longestValue   = 200 // before it is encoded
)

// leadingTags come first, since tags for which there is no room are left out.
var leadingTags = []string{"key", "more", "token", "traceparent", "controller", "action"}

// Write returns a comment of tags to be put before a statement. Their values are URL-encoded, so they cannot end the
// comment. Tags whose name is not made of ASCII letters, digits and _-.: are left out, and long values are cut. Without
// tags there is no comment.
func Write(tags map[string]string) string {
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
		if !ok || !isName(name) {
			continue
		}
		pair := encode(name) + "='" + encode(strings.ToValidUTF8(value[:min(len(value), longestValue)], "")) + "'"
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

// encode leaves letters, digits and -_.~ as they are, and writes every other byte as %XX.
func encode(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
