// Package mux keeps many locks on few sessions, by combining their statements.
//
// # One session
//
// A [Session] is a connection, a mutex, a queue of operations ([op]: to try to lock some keys, to release them, or to
// run another statement), the batches in flight to the server, and two rights: to send and to read.
//   - A caller puts an op into the queue. If the right to send is free and the window is open, it is given the right. It
//     then leads: it sends the queued releases and tries as one statement, or a call alone, and gives the right back.
//   - If the right to read is free, a caller that leads takes it before it sends. It reads the answer, settles the batch,
//     gives the right to send to the first in the queue, and wakes those whose answers have come. So a lone caller that
//     keeps a session busy needs no other goroutine, which would have to be woken.
//   - All other callers wait on their op's channel, which delivers an answer or the right to send.
//   - A goroutine reads what no caller reads: answers to several batches in flight, the rest of an answer whose reader's
//     context has ended, answers on sockets whose reads cannot be interrupted, and what the server says to a session that
//     has been idle for a millisecond, such as its end.
//
// Near the server the window is one batch: ops that arrive meanwhile form the next one, which costs both sides less.
// Before a caller sends, it lets the others that run ask as well, near the server and far from it.
// With a round trip above 250 µs it is up to eight batches.
//
// # No wake-up is lost
//
// The session's mutex guards these decisions. Every change that can make a right usable (an op queued, a batch sent, an
// answer settled, a right given up, a caller that leaves) ends with [Session.advanceLocked] before the mutex is
// unlocked. If the right to send is free and usable, it gives that to a waiting caller. Where there is no caller, it
// starts goroutines and gives the rights to them. So whenever the mutex is free: if the queue is not empty and the
// window is open, the right to send is taken; if a batch is in flight, the right to read is. The owner of a right is
// running, or has a message in its channel, which has room for all messages that it can get. A caller that leaves
// because its context has ended gives back, under the mutex, the right in its channel. So no answer and no right depends on
// a timer.
//
// # Contexts
//
// A caller waits for its op's channel alone, which costs less than a select. A patrol, which runs every few milliseconds
// while callers wait whose contexts can end, tells those that have been there for a whole round to watch their contexts as
// well. So the end of a context is noticed a few milliseconds late at most. Each change that makes a caller wait starts the
// patrol if it does not run, and it stops when all have been told, so none is forgotten. An op is told once, and only under
// mu and before it is answered; so its channel has no such message left when the op is used again.
//
// If the op of a caller whose context has ended has not been sent, the caller just removes it from the queue. A caller that
// reads is told by a read deadline in the past, and a goroutine continues where it stopped. The caller
// of a statement that has been sent does not wait for the answer. The caller of a try that has been sent waits for it,
// at most a second longer, since only the answer says whether the key is locked. Then it returns a
// [driver.UnsettledError]: the front end keeps the key's entry busy until the answer has come and, if it was a grant,
// the key has been released. So a session never holds a key twice, and this process never asks for a key whose state is
// unknown.
//
// One caller may notice the end of its context late: the write of the leading caller blocks if the server reads nothing
// and the socket's buffers are full. It stays in the write until the session ends, at the latest with its lease; no
// other caller and no [Mux.Close] waits for it. If it has the right to read, an error with which the server ends the
// session meanwhile is noticed when the write fails or the lease ends.
//
// # Errors
//
// A statement over many keys that fails may have been carried out in part. Before its ops are answered, the session
// asks pg_locks which of those keys it holds; then each op is settled accordingly, or queued again. A malformed answer,
// an error that ends the session (FATAL) and an expired lease end everything: first the locks end, then the socket is
// closed, then the waiting callers are answered.
//
// # Shared keys
//
// PostgreSQL grants a session a shared lock that it already holds at once, ahead of a waiting writer. So a shared key
// is on one session at a time, once, and [Mux] counts its users; see [sharedKey].
package mux
