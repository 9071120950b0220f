// Package integration is the module of the tests that need what programs which import pglock shall not depend on: a
// linearizability checker, telemetry, other migration tools, other clients of Redis, lib/pq
// and libraries on top of database/sql, and containers. It has no code of its own; each folder is about one of these.
package integration
