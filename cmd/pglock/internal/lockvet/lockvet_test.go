package lockvet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/lockvet"
)

func TestVetReportsPlainTransactions(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Plain, "plain", "db")
}

func TestVetReportsHandMadeKeys(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Key, "keys", "locks")
}

func TestVetReportsLocksThatAreNotUnlocked(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Unlock, "unlock")
}

func TestVetReportsWorkThatIgnoresTheLocksContext(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Context, "underlock")
}

func TestVetReportsTransactionLocksOutsideTransactions(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), lockvet.Tx, "tx")
}
