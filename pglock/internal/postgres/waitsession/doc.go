// Package waitsession waits for locks: one session for each lock that is waited for.
//
// A session that holds the keys of others must never wait, or PostgreSQL would see cycles between unrelated locks and end
// one of them. So what cannot be had at once is waited for on a session that holds nothing else. It stands in the server's
// own queue there, among all other clients; when the lock is granted it stays where it is, until it is released. Then the
// session is kept for the next wait for a while. Apart from the waiting it is a [mux.Session], with its lease, its heartbeats
// and everything that is done with a held lock.
//
// # Places
//
// [Turns] bounds the sessions that wait or carry what was waited for. Whoever comes when all places are taken polls: at each
// tick, with a growing pause, all pollers try at once, which the mux sessions make one statement of. A poller has no place in
// the server's queue, and gets nothing behind one. So the next free place goes to the oldest poller, and one who has polled
// for some seconds gets a place over the bound, one at a tick. Whoever cannot get a session, since the server has no room for
// more (53300), polls too.
//
// # Without a snapshot
//
// A blocked SELECT pg_advisory_lock has a snapshot: it holds back vacuum, and CREATE INDEX CONCURRENTLY waits for it. A
// session waits without one by means of a temporary procedure (queries/sessions.sql). Where that cannot be had, for whatever
// reason, it waits in slices: longer than deadlock_timeout, with nothing held between them. It loses its place in the queue
// then. That the procedure does what it should is looked at once, with the first wait.
//
// # The end of the wait
//
// The grant and the end of the caller's context can meet. The context's end sends a cancel request, and again, until the
// server has answered: if the answer is a grant the lock is held and returned, although the context has ended; if it is
// "cancelled", the session unlocks all that it may have got of several keys, and holds nothing. A request that comes late may
// hit a later statement, which is then repeated. A server that answers nothing for five seconds loses the session.
package waitsession
