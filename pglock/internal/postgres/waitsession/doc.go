// Package waitsession waits for locks, with one session for each wait.
//
// A session that holds the keys of other callers must never wait, or PostgreSQL would see cycles between unrelated
// locks and end one of them. So a lock that is not free is waited for on a session that holds nothing else. It waits in
// the server's own queue, among all other clients. A granted lock stays on its session until it is released; then the
// session is kept for the next wait for a while. Apart from the waiting it is a [mux.Session], with its lease, its
// heartbeats and all operations on held locks.
//
// The sessions are a pool of package puddle, whose size bounds them; a caller gets one when it is its turn. Until then,
// and while no further session can be opened, it polls: it tries on a mux session after each of its pauses, which grow to a
// second. A poller has no place in the server's queue, so it gets nothing while others wait there.
//
// # Without a snapshot
//
// A blocked SELECT pg_advisory_lock has a snapshot: it holds back vacuum, and CREATE INDEX CONCURRENTLY waits for it. A
// session waits without one by means of a temporary procedure (queries/sessions.sql). If that is not possible it waits
// in slices, longer than deadlock_timeout, without holding a snapshot between them. Then it loses its place in the
// queue after each slice.
//
// # The end of the wait
//
// The grant can race with the end of the caller's context. The context's end sends cancel requests until the server has
// answered: if the answer is a grant the lock is held and returned, although the context has ended; if it is
// "cancelled", the session unlocks the key that it may have got, and holds nothing. If the server does not answer for five
// seconds the session is ended. A session that a late request may still hit carries its lock, but waits for no other.
package waitsession
