//go:build !unix

package fencing_test

const (
	serviceVariable  = "PGLOCK_EXAMPLE_SERVICE"
	databaseVariable = "PGLOCK_EXAMPLE_DATABASE"
)

func writeLate(string, string) { panic("the test needs signals") }
