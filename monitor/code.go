package monitor

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Code says which code took a lock. PostgreSQL does not keep the statement that took a lock, so the code is known only
// if the session was seen while it waited for the lock, or while it ran the statement that took it.
type Code struct {
	// Source says when the statement was seen.
	Source CodeSource `json:"source"`
	// Statement is the statement that was seen. It is empty for the session of a pglock Locker, which runs pglock's own
	// statements, and if it was not recorded.
	Statement string `json:"statement"`
	// Tags are those of the statement's sqlcommenter comment, such as controller, action and traceparent. The session
	// can put anything there.
	Tags map[string]string `json:"tags"`
}

// CodeSource says when the statement of a [Code] was seen.
type CodeSource string

const (
	// CodeSeenWaiting is for the statement in which a session was seen waiting.
	CodeSeenWaiting CodeSource = "waited"
	// CodeSeenTaking is for the statement that a session ran when it was first seen with the lock. The statement must
	// call a function that takes advisory locks, and not with the number of another key. A statement that waits for
	// another lock counts only if it has the number of this key.
	CodeSeenTaking CodeSource = "took"
	// CodeOwnSession is for a session of a pglock Locker, which runs pglock's own statements. The code is unknown.
	CodeOwnSession CodeSource = "unknown: pglock session"
)

// maxStatement is how many bytes of a statement a Code keeps.
const maxStatement = 2000

// CodeOf returns what a session's statement says about the code that runs it, or nil if no statement can be seen.
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
	if len(text) <= maxStatement {
		return text
	}
	end := maxStatement
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Limits of what is read from a comment.
const (
	maxTags = 32
	maxTag  = 512
)

// QueryTags returns the tags of a statement's sqlcommenter comment (https://google.github.io/sqlcommenter/spec/). That
// is the last comment that consists of key='value' pairs, URL-encoded and separated by commas. If there is none, the
// map is empty, not nil. The server cuts statements at track_activity_query_size bytes, which can remove a comment at
// the end.
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

// parseTags returns nil for a comment that does not consist of tags.
func parseTags(comment string) map[string]string {
	tags := map[string]string{}
	for comment != "" {
		key, rest, ok := strings.Cut(comment, "='")
		if !ok || len(tags) == maxTags {
			return nil
		}
		value, rest, ok := readValue(rest)
		key, keyErr := url.PathUnescape(strings.TrimSpace(key))
		value, valueErr := url.PathUnescape(value)
		if !ok || keyErr != nil || valueErr != nil || !isTag(key) || len(value) > maxTag {
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

// isTag reports whether key can be the key of a tag.
func isTag(key string) bool {
	const others = "_-.:"
	return key != "" && len(key) <= 64 && !strings.ContainsFunc(key, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(others, r)
	})
}
