package monitor

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Code says which code took a lock, as far as it was seen. PostgreSQL does not keep the statement that took a lock, so it
// is known only of a session that was seen while it waited for it, or in the statement that takes it.
type Code struct {
	// Source says where the rest comes from.
	Source CodeSource `json:"source"`
	// Statement is the statement that was seen. It is empty where it says nothing about the caller (a session of a pglock
	// Locker runs pglock's own statements), and where it was not recorded.
	Statement string `json:"statement"`
	// Tags are those of the statement's sqlcommenter comment, such as controller, action and traceparent. They are
	// what the session says about itself.
	Tags map[string]string `json:"tags"`
}

// CodeSource says where a [Code] was seen.
type CodeSource string

const (
	// CodeSeenWaiting is for the statement in which a session was seen waiting.
	CodeSeenWaiting CodeSource = "waited"
	// CodeSeenTaking is for the statement that a session ran when it was first seen with the lock, if the statement
	// names a function that takes advisory locks, and not the number of another key. A statement that waits for
	// another lock counts only if it names the number of this one.
	CodeSeenTaking CodeSource = "took"
	// CodeOwnSession is for a session of a pglock Locker, whose statements are pglock's: unknown.
	CodeOwnSession CodeSource = "unknown: pglock session"
)

// longestStatement is how many bytes of a statement a Code keeps.
const longestStatement = 2000

// CodeOf returns what a session's statement says about the code that runs it; nil when there is no statement to see.
func CodeOf(s Session, source CodeSource) *Code {
	if s.Query == "" {
		return nil
	}
	tags := QueryTags(s.Query)
	switch {
	case s.Process == "":
		return &Code{Source: source, Statement: cutStatement(s.Query), Tags: tags}
	case len(tags) > 0:
		return &Code{Source: source, Tags: tags}
	}
	return &Code{Source: CodeOwnSession, Tags: map[string]string{}}
}

func cutStatement(text string) string {
	if len(text) <= longestStatement {
		return text
	}
	end := longestStatement
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Limits of what is read from a comment.
const (
	mostTags   = 32
	longestTag = 512
)

// QueryTags returns the tags of a statement's sqlcommenter comment (https://google.github.io/sqlcommenter/spec/), the last
// comment that is made of them: key='value' pairs with commas between, both URL-encoded. Without one it is empty, not nil.
// The server cuts statements at track_activity_query_size bytes, and with them a comment at their end.
func QueryTags(query string) map[string]string {
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
		if found := parseTags(strings.TrimSpace(comment)); len(found) > 0 {
			tags = found
		}
		rest = next
	}
}

// parseTags returns nil for a comment that is not made of tags alone.
func parseTags(comment string) map[string]string {
	tags := map[string]string{}
	for comment != "" {
		key, rest, ok := strings.Cut(comment, "='")
		if !ok || len(tags) == mostTags {
			return nil
		}
		value, rest, ok := untilQuote(rest)
		key, keyErr := url.PathUnescape(strings.TrimSpace(key))
		value, valueErr := url.PathUnescape(value)
		if !ok || keyErr != nil || valueErr != nil || !isTag(key) || len(value) > longestTag {
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

// untilQuote reads up to the quote that ends a value, in which a backslash stands before others.
func untilQuote(text string) (value, rest string, ok bool) {
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

// isTag reports whether key can be the key of a tag.
func isTag(key string) bool {
	const others = "_-.:"
	return key != "" && len(key) <= 64 && !strings.ContainsFunc(key, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(others, r)
	})
}
