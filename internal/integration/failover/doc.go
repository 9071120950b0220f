// Package failover lets primaries die, hang and live on beside their promoted standbys, while workers use everything that
// pglock has, and compares what they were told with what is on the last primary.
//
// Its tests promote once each, as part of the suite:
//
//	make faults                                  fifty promotions each
//	go test -args -promotions=1000               as many as that
//
// What the workers were told is kept outside of pglock and of the servers. Only the public API is used.
package failover
