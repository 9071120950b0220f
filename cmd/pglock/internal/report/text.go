package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/display"
)

// Text writes a report as text.
func Text(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s to %s UTC, %d snapshots", r.From.UTC().Format(time.DateTime), r.To.UTC().Format(time.DateTime), r.Snapshots)
	if r.Outages > 0 {
		fmt.Fprintf(&b, ", %d outages", r.Outages)
	}
	b.WriteString("\n\n")
	if len(r.Keys) == 0 {
		b.WriteString("No session waited.\n")
	} else {
		fmt.Fprintf(&b, "%-32s %6s %8s %8s %8s %8s\n", "KEY", "WAITS", "TOTAL", "P50", "P95", "MAX")
	}
	for _, k := range r.Keys {
		fmt.Fprintf(&b, "%s %6d %8s %8s %8s %8s\n", view.Fit(view.Printable(k.Key), 32, false), k.Waits, age(k.Total), age(k.P50),
			age(k.P95), age(k.Max))
		fmt.Fprintf(&b, "  database %s%s\n", view.Printable(k.Database), open(k))
		names(&b, "blocked by", k.Blockers)
		if !slices.Equal(k.Roots, k.Blockers) {
			names(&b, "at the root", k.Roots)
		}
		names(&b, "waited", k.Waiters)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func open(k Key) string {
	text := ""
	if k.Open > 0 {
		text += fmt.Sprintf(", %d still waiting", k.Open)
	}
	if k.Unseen > 0 {
		text += fmt.Sprintf(", %d ended unseen (at least so long)", k.Unseen)
	}
	return text
}

func names(b *strings.Builder, what string, all []Share) {
	var texts []string
	for _, s := range all {
		texts = append(texts, view.Printable(s.Name)+" "+age(s.Seconds))
	}
	if len(texts) > 0 {
		fmt.Fprintf(b, "  %s: %s\n", what, strings.Join(texts, ", "))
	}
}

func age(seconds float64) string { return display.Age(time.Duration(seconds * float64(time.Second))) }
