// Package report formats the results of a benchmark: as a table of figures and ratios, 80 columns wide, that marks
// each target as reached or missed, or as JSON.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
)

// Line is one line of the table. Fields that do not apply are left out.
type Line struct {
	// Row selects the line on the command line; several lines may share it.
	Row  string `json:"row"`
	What string `json:"what"`
	// Ours and Peer are the figures, medians if there are several.
	Ours Figure `json:"ours"`
	Peer Figure `json:"peer"`
	// Ratio compares ours with the peer's.
	Ratio *Ratio `json:"ratio,omitempty"`
	// Target bounds the ratio if there is one, or else ours.
	Target *Target `json:"target,omitempty"`
}

// Ratio is ours divided by the peer's: the median of all rounds, and the quartiles.
type Ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Compare returns the line of two series, whose ratio is that of each round.
func Compare(what string, unit Unit, ours, peer contest.Series) Line {
	ratios := ours.Over(peer)
	low, high := ratios.Quartiles()
	return Line{
		What: what, Ours: Figure{ours.Median(), unit}, Peer: Figure{peer.Median(), unit},
		Ratio: &Ratio{Median: ratios.Median(), Low: low, High: high},
	}
}

// Alone returns the line of a series without a peer.
func Alone(what string, unit Unit, ours contest.Series) Line {
	return Line{What: what, Ours: Figure{ours.Median(), unit}}
}

// Target is what a line should reach.
type Target struct {
	Bound   Bound   `json:"bound"`
	Limit   float64 `json:"limit"`
	Reached bool    `json:"reached"`
}

// Bound is how a target is compared.
type Bound string

// The bounds.
const (
	AtMost  Bound = "≤"
	AtLeast Bound = "≥"
)

func (b Bound) holds(value, limit float64) bool {
	if b == AtMost {
		return value <= limit
	}
	return value >= limit
}

// Aim returns the line with a target for its ratio, or for ours if it has none.
func (l Line) Aim(bound Bound, limit float64) Line {
	value := l.Ours.Value
	if l.Ratio != nil {
		value = l.Ratio.Median
	}
	l.Target = &Target{Bound: bound, Limit: limit, Reached: bound.holds(value, limit)}
	return l
}

// layout is 80 columns.
const layout = "%-26s %10s %9s %6s %11s %9s %3s"

// Head returns the line above the table.
func Head() string {
	return strings.TrimRight(fmt.Sprintf(layout, "", "pglock", "peer", "ratio", "quartiles", "target", ""), " ")
}

// String returns the line of the table.
func (l Line) String() string {
	ratio, spread, target, verdict := "", "", "", ""
	if l.Ratio != nil {
		ratio = number(l.Ratio.Median) + "×"
		spread = number(l.Ratio.Low) + "–" + number(l.Ratio.High)
	}
	if l.Target != nil {
		target, verdict = l.target(), "no"
		if l.Target.Reached {
			verdict = "yes"
		}
	}
	text := fmt.Sprintf(layout, l.What, l.Ours, l.Peer, ratio, spread, target, verdict)
	return strings.TrimRight(text, " ")
}

func (l Line) target() string {
	limit := number(l.Target.Limit) + "×"
	if l.Ratio == nil {
		limit = Figure{Value: l.Target.Limit, Unit: l.Ours.Unit}.String()
	}
	return string(l.Target.Bound) + " " + limit
}

// WriteJSON writes the lines as one JSON document, after a description of the run.
func WriteJSON(w io.Writer, run map[string]string, lines []Line) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Run   map[string]string `json:"run"`
		Lines []Line            `json:"lines"`
	}{run, lines})
}
