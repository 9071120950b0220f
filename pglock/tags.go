package pglock

import (
	"context"
	"maps"
	"strconv"
)

// tagging returns the tags of a waiting caller. It is nil if there are no comments.
type tagging func(ctx context.Context) map[string]string

// WithSQLComments shows on the server which code waits for a lock: the sessions of this Locker that wait for a lock,
// or hold one that they waited for, begin their statements with a comment in the form of sqlcommenter
// (https://google.github.io/sqlcommenter/spec/), such as
//
//	/*key='invoice%3A42',token='…',action='pay',controller='invoices'*/
//
// The monitor reads the comment there, and pg_stat_activity shows it. It has the key's name, the token, for locks of
// several keys "more" with the number of the others, and what tags returns for the context of the waiting call, such
// as controller, action and traceparent. tags is called on the waiting goroutine when it begins to wait on the
// server, perhaps concurrently; it may be nil or return nil. It cannot replace key, more and token. Values are encoded, cut
// after 200 bytes, and left out when the comment would become longer than 900; names with characters other than ASCII
// letters, digits and _-.: are left out.
//
// It is off by default, because the comments also appear in the server's log (log_lock_waits, log_statement) and, up to
// PostgreSQL 15, make each wait a separate entry in pg_stat_statements: put nothing secret into names and tags. A
// lock that was free when it was requested is held by a session with other locks, and has no comment; the comment of
// a lock that was handed off within the process names the call that waited on the server. It is for PostgreSQL only.
func WithSQLComments(tags func(ctx context.Context) map[string]string) Option {
	return lockerOption(func(c *lockerConfig) error {
		c.tags = tags
		if tags == nil {
			c.tags = func(context.Context) map[string]string { return nil }
		}
		c.postgresOnly("WithSQLComments")
		return nil
	})
}

// of returns the tags of a request that is about to wait on the server.
func (t tagging) of(r *request) map[string]string {
	if t == nil {
		return nil
	}
	tags := maps.Clone(t(r.caller))
	if tags == nil {
		tags = map[string]string{}
	}
	delete(tags, "more")
	tags["key"], tags["token"] = r.keys[0].String(), r.token.String()
	if more := len(r.keys) - 1; more > 0 {
		tags["more"] = strconv.Itoa(more)
	}
	return tags
}
