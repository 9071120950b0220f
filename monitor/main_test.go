package monitor_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestMain(m *testing.M) { testenv.MainAlone(m) }
