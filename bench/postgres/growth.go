package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
)

// growth measures how the cost grows with the number of goroutines, and with the number of locks that the process
// already holds. It plots both in the terminal, and in growth.svg.
func growth(ctx context.Context, l *lab) (lines []report.Line, err error) {
	goroutines := plot{Title: "pairs a second by goroutines"}
	for _, n := range []int{1, 10, 100, 1_000, 10_000} {
		rate, err := l.grown(ctx, min(n, l.most), 0)
		if err != nil {
			return nil, err
		}
		goroutines.add(fmt.Sprintf("%d", n), rate)
		lines = append(lines, rateOf(fmt.Sprintf("%d goroutines", n), rate))
	}
	held := plot{Title: "pairs a second of 64 goroutines by locks held already"}
	for _, n := range []int{10, 1_000, 100_000} {
		rate, err := l.grown(ctx, 64, min(n, l.most))
		if err != nil {
			return nil, err
		}
		held.add(fmt.Sprintf("%d", n), rate)
		lines = append(lines, rateOf(fmt.Sprintf("64 goroutines, %d held", n), rate))
	}
	fmt.Fprint(os.Stderr, goroutines.text(), held.text())
	return lines, os.WriteFile(l.drawTo, []byte(drawing(goroutines, held)), 0o644)
}

func rateOf(what string, rate float64) report.Line {
	return report.Line{What: what, Ours: report.Figure{Value: rate, Unit: report.PerSecond}}
}

// grown measures n goroutines of a Locker that already holds some locks.
func (l *lab) grown(ctx context.Context, n, held int) (rate float64, err error) {
	locker, err := l.locker(ctx, nil, pglock.WithMaxHeld(held+2*n+10))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	if held > 0 {
		keys := make([]pglock.Key, held)
		for i := range keys {
			keys[i] = pglock.Int64Key(-1 - int64(i))
		}
		lock, err := locker.LockAll(ctx, keys)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	}
	//pglock:allow the lock is only ballast
	all, err := contest.Run(ctx, l.plan, contest.Contestant{Name: "pglock", Measure: contest.Rate(n, lockerPairs(locker, distinctKey))})
	if err != nil {
		return 0, err
	}
	return all[0].Median(), nil
}

// plot is a bar chart.
type plot struct {
	Title  string
	labels []string
	values []float64
}

func (p *plot) add(label string, value float64) {
	p.labels, p.values = append(p.labels, label), append(p.values, value)
}

func (p *plot) highest() (most float64) {
	for _, v := range p.values {
		most = max(most, v)
	}
	return max(most, 1)
}

// text draws a plot for a terminal.
func (p *plot) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", p.Title)
	for i, v := range p.values {
		fmt.Fprintf(&b, "%10s %-50s %s\n", p.labels[i], strings.Repeat("█", int(50*v/p.highest())),
			report.Figure{Value: v, Unit: report.PerSecond})
	}
	return b.String()
}

// drawing draws plots below each other, as SVG.
func drawing(plots ...plot) string {
	const width, line = 720, 24
	var b strings.Builder
	y := line
	for _, p := range plots {
		fmt.Fprintf(&b, "<text x=\"10\" y=\"%d\" font-weight=\"bold\">%s</text>\n", y, p.Title)
		for i, v := range p.values {
			y += line
			fmt.Fprintf(&b, "<text x=\"90\" y=\"%d\" text-anchor=\"end\">%s</text>", y, p.labels[i])
			long := int(450 * v / p.highest())
			fmt.Fprintf(&b, "<rect x=\"100\" y=\"%d\" width=\"%d\" height=\"16\" fill=\"#336791\"/>", y-13, long)
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%s</text>\n", 108+long, y, report.Figure{Value: v, Unit: report.PerSecond})
		}
		y += 2 * line
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"14\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", width, y, b.String())
}
