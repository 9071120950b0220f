package faults

import (
	"fmt"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// Tally counts the operations of one part of a campaign.
type Tally struct {
	Part       string
	Trials     atomic.Int64 // rounds of a part that has trials
	Operations atomic.Int64 // calls of the library
	Kills      atomic.Int64 // of processes, sessions and servers
	Freezes    atomic.Int64
	Partitions atomic.Int64
	Refused    atomic.Int64 // guarded transactions of holders that had lost their lock
	Violations atomic.Int64
	Took       time.Duration
}

// String is the progress of the part in one line.
func (c *Tally) String() string {
	return fmt.Sprintf("%s: trials %d, operations %d, kills %d, freezes %d, partitions %d, refused %d, violations %d",
		c.Part, c.Trials.Load(), c.Operations.Load(), c.Kills.Load(), c.Freezes.Load(), c.Partitions.Load(),
		c.Refused.Load(), c.Violations.Load())
}

// Table formats the tallies of all parts as a table.
func Table(parts []*Tally) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	line := func(cells ...any) {
		for _, cell := range cells {
			_, _ = fmt.Fprintf(w, "| %v\t", cell)
		}
		_, _ = fmt.Fprintln(w, "|")
	}
	line("part", "trials", "operations", "kills", "freezes", "partitions", "refused", "violations", "took")
	line("---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:")
	for _, c := range parts {
		line(c.Part, c.Trials.Load(), c.Operations.Load(), c.Kills.Load(), c.Freezes.Load(), c.Partitions.Load(),
			c.Refused.Load(), c.Violations.Load(), c.Took.Round(time.Second))
	}
	_ = w.Flush() // a Builder does not fail
	return text.String()
}
