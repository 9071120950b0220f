// Package faults runs pglock under thousands of faults and has a linearizability checker decide whether the locks kept
// their promises: sessions that freeze, networks that swallow everything, processes and sessions that are killed,
// acquires that are given up at any moment; on PostgreSQL and on each kind of Redis deployment.
//
// Its one test prints a table of what was done and what went wrong:
//
//	make faults                                                 the whole campaign, which takes minutes
//	go test -run TestFaults/parts/redis -v . -args -scale=0.1   a tenth of some of its parts
//
// Without -scale the test runs a small campaign of seconds, as a part of the suite. If it finds a fault, it keeps
// the history and the log of the server in a directory, and prints its name.
//
// It uses the public API only.
package faults
