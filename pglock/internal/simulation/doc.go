// Package simulation runs Lockers against a server that is simulated, in one process and in virtual time.
//
// Everything of this library is real: Lockers, the backend, the protocol. What is simulated is what it talks to: PostgreSQL's
// lock manager and sessions (server, process, locks), and the network (network, end). A schedule is what one
// seed decides: what callers do, how long everything takes, and what fails when. It runs in a testing/synctest bubble, so a
// schedule of many seconds takes some milliseconds, and a timeout is exact.
//
// The oracle knows what the server has granted and what callers have been told, and compares them at each grant, at the
// end of each session and after each call. GuardTx, Fence and frozen processes are not simulated. In some schedules callers lock under
// the contexts of locks, and processes publish their waits: there are deadlocks, or none if all keep one order.
//
// A seed decides what the parts of the simulation draw, each from a source of its own. Go decides which goroutine
// runs first when several can, and which case of a select, and pollers draw their pauses from Go's own source. Of 40 seeds
// that were run four times each, 23 gave the same schedule each time.
package simulation
