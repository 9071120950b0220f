package monitor

import (
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/sqlcomment"
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

// QueryTags returns the tags of a statement's sqlcommenter comment (https://google.github.io/sqlcommenter/spec/). That
// is the last comment that consists of key='value' pairs, URL-encoded and separated by commas. If there is none, the
// map is empty, not nil. The server cuts statements at track_activity_query_size bytes, which can remove a comment at
// the end.
func QueryTags(query string) map[string]string { return sqlcomment.Read(query) }
