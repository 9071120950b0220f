package semaphore_test

import (
	"os"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestMain(m *testing.M) {
	if database := os.Getenv(processVariable); database != "" {
		runProcess(database)
		return
	}
	testenv.Main(m)
}
