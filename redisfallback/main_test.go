package redisfallback_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// TestMain runs several tests at a time, since most of them wait for leases; -parallel overrides it.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testenv.Main(m)
}
