// Package mux keeps many locks on few sessions, by combining their statements.
//
// # One session
//
// A [Session] is a connection, a mutex, a queue of operations ([op]: to try to lock some keys, to release them, or to
// run another statement), and the batches in flight to the server. A caller puts its op into the queue and waits for the
// answer. What is queued goes to the server in batches: the releases and tries as one statement, or a call alone. A caller
// that finds the window open and no other goroutine sending sends; so does the one that reads, when it has settled the
// answer to a batch and woken its callers. Before it sends, it lets the others that run ask as well.
//
// A lone caller reads its answer itself: to be woken by a goroutine that reads costs it nearly as much as the server does. A
// goroutine reads for several callers, goes on where the end of its context has interrupted a caller, and reads what the server
// says to a session that is idle.
//
// Near the server the window is one batch: ops that arrive meanwhile form the next one, which costs both sides less.
// With a round trip above 250 µs it is up to eight batches.
//
// # No wake-up is lost
//
// The session's mutex guards the queue, the batches and who sends. Every change that lets one more batch be sent (an op queued,
// an answer settled, the end of a write) is followed by [Session.sendLocked] under the mutex, unless another goroutine sends:
// that one looks at the queue again before it leaves. So whenever the mutex is free, and the queue is not empty and the window
// is open, a goroutine sends. In the same way [Session.mayReadLocked] follows: whenever the mutex is free, and a batch is in flight
// that has been written, a goroutine or a caller reads. No answer depends on a timer.
//
// # Contexts
//
// Callers wait by a plain receive, which costs half of a select. While any wait, the session looks at their contexts every 10 ms
// (keepLease), and tells those whose context has ended. It interrupts one that reads, by a read deadline in the past; a goroutine
// goes on where that one stopped.
//
// If the op of a caller whose context has ended has not been sent, the caller just removes it from the queue. The caller
// of a statement that has been sent does not wait for the answer. The caller of a try that has been sent waits for it,
// at most a second longer, since only the answer says whether the key is locked. Then it returns a
// [driver.UnsettledError]: the front end keeps the key's entry busy until the answer has come and, if it was a grant,
// the key has been released. So a session never holds a key twice, and this process never asks for a key whose state is
// unknown.
//
// One caller may notice the end of its context late: the write of the caller that sends blocks if the server reads nothing
// and the socket's buffers are full. It stays in the write until the session ends, at the latest with its lease; no
// other caller and no [Mux.Close] waits for it. If it is the one that reads, an error with which the server ends the
// session meanwhile is noticed when the write fails or the lease ends.
//
// # Errors
//
// A statement over many keys that fails may have been carried out in part. Before its ops are answered, the session
// asks pg_locks which of those keys it holds; then each op is settled accordingly, or queued again. A malformed answer,
// an error that ends the session (FATAL) and an expired lease end everything: first the locks end, then the socket is
// closed, then the waiting callers are answered.
package mux
