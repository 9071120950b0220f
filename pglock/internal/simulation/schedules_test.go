package simulation

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var (
	schedulesFlag = flag.Int("schedules", 0, "how many schedules to run; 0: as many as fit into the suite")
	firstFlag     = flag.Uint64("first", 1, "the seed of the first of them")
	seedFlag      = flag.Uint64("seed", 0, "run the schedule of this seed only, and print it")
	timesFlag     = flag.Int("times", 1, "how often to run the schedule of -seed, and say how many different ones that were")
)

// tally counts what has happened in many schedules.
type tally struct {
	schedules, calls, grants, errors, victims, published, violations int
	faults                                                           map[string]int
}

func (c *tally) String() string {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "%d schedules, %d calls, %d grants of the server, %d errors, %d of deadlocks, %d texts of waits seen, %d violations",
		c.schedules, c.calls, c.grants, c.errors, c.victims, c.published, c.violations)
	for _, name := range slices.Sorted(maps.Keys(c.faults)) {
		_, _ = fmt.Fprintf(&text, "\n%8d %s", c.faults[name], name)
	}
	return text.String()
}

// found are schedules that have found a fault of the engine that no other test found.
var found = []uint64{15938, 20302, 45953, 64277, 89366}

// Every fourth schedule is without faults. In those hardly any error is allowed.
//
// A schedule that has failed is run again with go test ./pglock/internal/simulation -v -args -seed=N.
func TestSchedules(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // or the same seed would seldom give the same schedule
	count := &tally{faults: map[string]int{}}
	if *seedFlag != 0 {
		different := map[string]bool{}
		for range *timesFlag {
			different[run(t, *seedFlag, count)] = true
		}
		t.Logf("%d different schedules; one of them:\n%s", len(different), slices.Collect(maps.Keys(different))[0])
		return
	}
	n := *schedulesFlag
	if n == 0 {
		n = 50
	}
	for _, seed := range found {
		run(t, seed, count)
	}
	for i := uint64(0); i < uint64(n) && !t.Failed(); i++ {
		run(t, *firstFlag+i, count)
	}
	t.Log(count)
}
