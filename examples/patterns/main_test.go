package patterns_test

import (
	"log"
	"os"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestMain(m *testing.M) {
	if service := os.Getenv(serviceVariable); service != "" {
		writeLate(service, os.Getenv(databaseVariable))
		return
	}
	if backend := os.Getenv(transferVariable); backend != "" {
		if err := transferInChild(backend); err != nil {
			log.Fatal(err)
		}
		return
	}
	testenv.Main(m)
}
