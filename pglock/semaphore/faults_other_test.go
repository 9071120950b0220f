//go:build !unix

package semaphore_test

const processVariable = "PGLOCK_SEMAPHORE_TEST_DATABASE"

func runProcess(string) { panic("the fault test needs signals") }
