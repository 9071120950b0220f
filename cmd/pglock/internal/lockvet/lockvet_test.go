package lockvet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/lockvet"
)

func TestPlainTransactionsAreReported(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Plain, "plain", "db")
}

func TestHandMadeKeysAreReported(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Key, "keys", "locks")
}

func TestLocksThatAreNotUnlockedAreReported(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Unlock, "unlock")
}

func TestWorkThatIgnoresTheLocksContextIsReported(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Context, "underlock")
}

func TestTransactionLocksOutsideTransactionsAreReported(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Tx, "tx")
}
