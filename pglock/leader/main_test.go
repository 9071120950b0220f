package leader_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

var electionKey = pglock.NewKey("election")

func TestMain(m *testing.M) { testenv.Main(m) }
