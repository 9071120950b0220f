package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

var columns = []string{"", "p50", "p99", "p50", "p99", "1", "8", "64", "512"}

// cells are the figures of a result, under the columns.
func (r *result) cells() []string {
	cells := []string{r.name}
	for _, all := range [][]time.Duration{r.pair, r.handoff} {
		for _, share := range []float64{0.5, 0.99} {
			d, ok := percentile(all, share)
			cells = append(cells, known(ok, brief(d)))
		}
	}
	for _, n := range goroutines {
		rate, ok := r.rates[n]
		cells = append(cells, known(ok, thousands(rate)))
	}
	return cells
}

func known(ok bool, text string) string {
	if ok {
		return text
	}
	return "-"
}

// brief writes a duration with two digits or more.
func brief(d time.Duration) string {
	for _, u := range []struct {
		unit string
		size time.Duration
	}{{"s", time.Second}, {"ms", time.Millisecond}} {
		if d >= u.size {
			n := float64(d) / float64(u.size)
			return strconv.FormatFloat(n, 'f', max(0, 1-int(math.Log10(n))), 64) + " " + u.unit
		}
	}
	return strconv.FormatInt(d.Microseconds(), 10) + " µs"
}

func thousands(n float64) string {
	text := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// printTable prints the figures, and then what the kinds are for.
func printTable(out io.Writer, results []*result) {
	fmt.Fprintf(out, "\n%-16s %15s %15s %s\n", "", "lock and unlock", "from process to", strings.Repeat(" ", 2)+"pairs a second, by goroutines")
	fmt.Fprintf(out, "%-16s %15s %15s\n", "", "a free lock", "process")
	line(out, columns)
	for _, r := range results {
		if r.missing == "" {
			line(out, r.cells())
		} else {
			fmt.Fprintf(out, "%-16s %s\n", r.name, r.missing)
		}
	}
	for _, r := range results {
		fmt.Fprintf(out, "\n%s\n", r.name)
		for _, row := range [][2]string{{"is lost", r.lost}, {"needs", r.needs}, {"use it", r.choose}} {
			field(out, row[0], row[1])
		}
	}
}

func line(out io.Writer, cells []string) {
	fmt.Fprintf(out, "%-16s %7s %7s %7s %7s %7s %7s %7s %7s\n", anys(cells)...)
}

func anys(cells []string) (all []any) {
	for _, c := range cells {
		all = append(all, c)
	}
	return all
}

// field prints a name and a text, which is broken before column 80.
func field(out io.Writer, name, text string) {
	const indent, width = 12, 79
	at := indent
	fmt.Fprintf(out, "  %-*s", indent-2, name)
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > width:
			fmt.Fprintf(out, "\n%*s", indent, "")
			at = indent
		default:
			fmt.Fprint(out, " ")
			at++
		}
		fmt.Fprint(out, word)
		at += len(word)
	}
	fmt.Fprintln(out)
}

// printMarkdown prints the same as two tables.
func printMarkdown(out io.Writer, results []*result) {
	fmt.Fprint(out, "\n| | free: p50 | p99 | from process to process: p50 | p99 | a second by 1 | by 8 | by 64 | by 512 |\n|---"+
		strings.Repeat("|--:", len(columns)-1)+"|\n")
	for _, r := range results {
		if r.missing == "" {
			fmt.Fprintf(out, "| %s |\n", strings.Join(r.cells(), " | "))
		}
	}
	fmt.Fprint(out, "\n| | is lost | needs | use it |\n|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", r.name, r.lost, r.needs, r.choose)
	}
}
