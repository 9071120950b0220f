package fencing_test

import (
	"os"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestMain(m *testing.M) {
	if service := os.Getenv(serviceVariable); service != "" {
		writeLate(service, os.Getenv(databaseVariable))
		return
	}
	testenv.Main(m)
}
