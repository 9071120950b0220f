package redis_test

import (
	"os"
	"testing"
)

// A process of the handoff benchmark is this test binary, started with these variables.
const peerVariable, addrVariable = "PGLOCK_BENCH_PEER", "PGLOCK_BENCH_ADDR"

func TestMain(m *testing.M) {
	if name := os.Getenv(peerVariable); name != "" {
		os.Exit(contend(name, os.Getenv(addrVariable)))
	}
	os.Exit(m.Run())
}
