// Package mux keeps many locks on few sessions, by combining.
//
// # One session
//
// A [Session] is a connection, a mutex, a queue of what callers want of it ([op]: to try to lock some keys, to release
// them, or to run a statement of its own kind), the batches that are on their way to the server, and two rights: the right
// to send and the right to read. No goroutine belongs to a session: whoever calls does the work.
//
//   - A caller puts an op into the queue. If the right to send is free and the window is open, it takes the right. It then
//     leads: it takes what is in the queue, writes it as one statement, releases first, and gives the right back.
//   - If the right to read is free, it takes that too, reads the answer of the first batch on its way, settles what was in
//     it, and wakes those who wait for that. Otherwise it waits until it is the turn of its own batch to be read.
//   - All others wait on their op's channel, which brings an answer or a right.
//
// Near the server the window is one batch: what comes meanwhile makes up the next one, which costs both sides less. Far from
// it (a round trip above 250 µs) there are up to eight.
//
// # No wake-up is lost
//
// All of that is decided under the session's mutex, and every change that can make a right usable (an op queued, a batch
// sent, an answer settled, a right given up, a caller who leaves) ends with [Session.advanceLocked], before the mutex is
// given up. It looks at the queue and at the batches, and gives each right that is free and usable to a caller who waits, or,
// if none does, to a goroutine that it starts. So whenever the mutex is free: if the queue is not empty and the window is
// open, somebody has the right to send; if a batch is on its way, somebody has the right to read. Who has a right is running,
// or has a message in its channel, which has room for all that it can get. A caller who leaves (its context has ended) gives
// back, under the mutex, the rights in its channel. So nothing waits for a timer, and nothing is repaired.
//
// # Contexts
//
// A caller who waits follows its context in a select. Before its op is sent it takes it out of the queue, and that is all.
// One who reads is interrupted by a read deadline in the past, and a goroutine reads on where it stopped. Once an op is sent
// the caller waits for the answer for a second at most, since only the answer says whether the key is locked. After that it
// returns a [driver.Unsettled]: the front end keeps the key's entry busy until the answer has come and, if it was a grant,
// the key has been given back. So a session never holds a key twice, and nobody in this process asks for a key whose state
// is not known.
//
// # Errors
//
// A statement over many keys that fails is half done. Nobody in its batch is answered before the session has asked pg_locks
// what it holds of those keys; then each op is settled by that, or queued again. An answer that makes no sense, an error that
// ends the session (FATAL) and a lease that runs out end everything: first the locks, then the socket is closed, then those
// who wait are answered.
//
// # Shared keys
//
// PostgreSQL grants a session a shared lock that it has already at once, past a writer that waits. So a shared key is on one
// session at a time, once, and [Mux] counts who uses it; see [sharedKey].
package mux
