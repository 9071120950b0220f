package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

const head = `
| | free: p50 | p99 | from process to process: p50 | p99 | a second by 1 | by 8 | by 64 | by 512 |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
`

// printTable prints a table for the documentation.
func printTable(out io.Writer, results []*result) {
	fmt.Fprint(out, head)
	for _, r := range results {
		cells := []string{r.name}
		for _, all := range [][]time.Duration{r.pair, r.handoff} {
			for _, share := range []float64{0.5, 0.99} {
				cells = append(cells, report.Figure{Value: percentile(all, share).Seconds(), Unit: report.Seconds}.String())
			}
		}
		for _, n := range goroutines {
			cells = append(cells, perSecond(r.rates[n]))
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
}

func perSecond(rate float64) string {
	return strings.TrimSuffix(report.Figure{Value: rate, Unit: report.PerSecond}.String(), "/s")
}

// percentile returns the duration below which a share of all are.
func percentile(all []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
