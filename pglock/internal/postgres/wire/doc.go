// Package wire talks to the server: it opens a lock session's connection, writes its statements and reads the
// answers.
//
// # Opening
//
// [Dialer.Open] dials with the caller's configuration, refuses servers that cannot lock (a proxy that shares sessions
// among clients, a hot standby, CockroachDB), makes the session independent of what role, database and pool are
// configured to do, and prepares the few statements that it needs.
//
// # Writing
//
// The server ends the session of a client that falls silent while idle or in the middle of a message, but not of one that
// has sent only some of a statement's messages (idle_session_timeout is armed when the server is ready for a query). So a
// statement is either one message, or several that fit into one TCP segment, and so arrive together or not at all.
//
// # Reading
//
// [Conn.Receive] collects one answer, and skips notices and changed parameters. Package mux also calls it while the session
// is idle, and so notices its end. An error of severity FATAL or PANIC ends the session at once: the server sends it before
// it frees the session's locks, and closes the connection only afterwards. Receive uses the form of the severity that is
// not localised.
package wire
