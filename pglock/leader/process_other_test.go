//go:build !unix

package leader_test

const processVariable = "PGLOCK_LEADER_TEST_DATABASE"

func runProcess(string) { panic("the fault test needs signals") }
