// Package faults runs pglock under thousands of faults, and lets a linearizability checker decide whether the locks
// kept their guarantees: frozen sessions, networks that drop everything, killed processes and sessions, acquires
// cancelled at any moment; on PostgreSQL and on each kind of Redis deployment.
//
// Its test prints a table of operations and violations:
//
//	make faults                                            the whole campaign, which takes minutes
//	go test -run TestLongFaults/parts/redis -args -scale=0.1   a tenth of some of its parts
//
// Without -scale the test runs a small campaign of seconds, as part of the suite. If it finds a violation, it
// keeps the history and the server's log in a directory, and prints its name.
//
// It uses the public API only, but for what makes Lockers those of several processes.
package faults
