package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
)

const (
	maxBars = 400 // of a timeline
	maxGaps = 100
	// leastGap is the shortest time without snapshots that the timeline shows.
	leastGap = 5 * time.Second
)

// timeline is a part of the recorded past. All that is recorded is from Begin to End.
type timeline struct {
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Bars  []bar     `json:"bars"`
	Gaps  []gap     `json:"gaps"`
}

// bar is the worst state in a part of the period.
type bar struct {
	Waiters   int     `json:"waiters"`
	Longest   float64 `json:"longest_seconds"`
	Deadlocks int     `json:"deadlocks"`
	Seen      bool    `json:"seen"` // whether there was a snapshot
}

// gap is a time without snapshots.
type gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// serveTimeline answers with the numbers of waiters over the recorded past, or over its last seconds before a time.
func (s *server) serveTimeline(w http.ResponseWriter, r *http.Request) {
	begin, end, _ := s.Past.Bounds()
	query := r.URL.Query()
	n, seconds, to := 200, 0, end
	var err error
	if text := query.Get("n"); text != "" {
		n, err = strconv.Atoi(text)
	}
	if text := query.Get("seconds"); text != "" && err == nil {
		seconds, err = strconv.Atoi(text)
	}
	if text := query.Get("to"); text != "" && err == nil {
		to, err = time.Parse(time.RFC3339Nano, text)
	}
	if err != nil || n < 1 || n > maxBars || seconds < 0 || seconds > 1<<31 {
		http.Error(w, fmt.Sprintf("want n between 1 and %d, seconds of 0 or more, and to=2026-11-22T01:14:00Z", maxBars), http.StatusBadRequest)
		return
	}
	from, to := window(begin, end, to, time.Duration(seconds)*time.Second)
	t := timelineOf(from, to, s.Past.Timeline(from, to), n)
	t.Begin, t.End = begin, end
	text, err := json.Marshal(t)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, text)
}

// window returns a part of the past of the wanted length, or all of it for 0. It ends at a time if that is possible.
func window(begin, end, to time.Time, long time.Duration) (time.Time, time.Time) {
	if long == 0 || long >= end.Sub(begin) {
		return begin, end
	}
	if to.After(end) {
		to = end
	}
	if to.Before(begin.Add(long)) {
		to = begin.Add(long)
	}
	return to.Add(-long), to
}

// timelineOf returns no more bars than there are snapshots.
func timelineOf(first, last time.Time, infos []recording.Info, n int) timeline {
	n = max(1, min(n, len(infos)))
	t := timeline{First: first, Last: last, Bars: make([]bar, n), Gaps: gapsOf(infos, last)}
	width := max(last.Sub(first)/time.Duration(n), 1)
	for _, info := range infos {
		b := &t.Bars[min(n-1, max(0, int(info.At.Sub(first)/width)))]
		b.Seen = true
		b.Waiters, b.Deadlocks = max(b.Waiters, info.Waiters), max(b.Deadlocks, info.Deadlocks)
		b.Longest = max(b.Longest, info.Longest.Seconds())
	}
	t.fillBars(width)
	return t
}

// gapsOf returns the times that are much longer than what is usually between two snapshots, the longest ones if there are many.
func gapsOf(infos []recording.Info, last time.Time) []gap {
	gaps := []gap{}
	if len(infos) < 2 {
		return gaps
	}
	apart := make([]time.Duration, 0, len(infos))
	for i := range infos[1:] {
		apart = append(apart, infos[i+1].At.Sub(infos[i].At))
	}
	least := max(leastGap, 4*slices.Sorted(slices.Values(apart))[len(apart)/2])
	for i, between := range apart {
		if between >= least {
			gaps = append(gaps, gap{infos[i].At, infos[i+1].At})
		}
	}
	if at := infos[len(infos)-1].At; last.Sub(at) >= least {
		gaps = append(gaps, gap{at, last})
	}
	slices.SortFunc(gaps, func(a, b gap) int { return int(b.To.Sub(b.From)/time.Millisecond - a.To.Sub(a.From)/time.Millisecond) })
	return gaps[:min(len(gaps), maxGaps)]
}

// fillBars gives bars without a snapshot the state before, since it lasted, except in a gap.
func (t *timeline) fillBars(width time.Duration) {
	for i := 1; i < len(t.Bars); i++ {
		middle := t.First.Add(time.Duration(i)*width + width/2)
		inGap := slices.ContainsFunc(t.Gaps, func(g gap) bool { return middle.After(g.From) && middle.Before(g.To) })
		if !t.Bars[i].Seen && !inGap {
			t.Bars[i] = t.Bars[i-1]
			t.Bars[i].Seen = false
		}
	}
}
