package failover_test

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report tells what the failovers have cost, as tables.
func (o *oracle) report() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	line := func(cells ...any) {
		for _, cell := range cells {
			_, _ = fmt.Fprintf(w, "| %v\t", cell)
		}
		_, _ = fmt.Fprintln(w, "|")
	}
	line("old primary", "promotions", "promoted after, median", "longest", "then first guarded, median", "longest", "longest overlap")
	line("---", "--:", "--:", "--:", "--:", "--:", "--:")
	for _, m := range allModes {
		var promoted, guarded []time.Duration
		for _, e := range o.eras {
			if e.mode == m {
				promoted = append(promoted, e.promoted-e.begin)
				guarded = append(guarded, max(0, e.guarded-e.promoted))
			}
		}
		if len(promoted) > 0 {
			line(m, len(promoted), median(promoted), round(slices.Max(promoted)), median(guarded), round(slices.Max(guarded)), round(o.figures.overlaps[m]))
		}
	}
	_ = w.Flush()
	f := o.figures
	if len(f.confirmed) > 0 {
		fmt.Fprintf(&text, "\nconfirmed and lost:")
		for _, kind := range []string{"guarded", "leader", "once", "runTx"} {
			fmt.Fprintf(&text, " %s %d and %d;", kind, f.confirmed[kind], f.lost[kind])
		}
		fmt.Fprintf(&text, " calls permitted %d, windows with too many %d; overwritten %d", f.passes, f.excess, f.overwritten)
	}
	fmt.Fprintf(&text, "\nruns %d, repeated %d; tokens %d, not larger %d\n", f.runs, f.repeated, f.tokens, f.goneBack)
	return text.String()
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return round(all[len(all)/2])
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
