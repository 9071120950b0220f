package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
)

// maxKey bounds the length of the key in a link.
const maxKey = 1000

// cache has the latest states that pages show, of all locks or of one key. A state is computed once for any number of
// pages.
type cache struct {
	mu     sync.Mutex
	states map[string][]*encodedState // states by key, the latest last
}

// maxStates is how many states of one key are kept. A page that polls every second has one of the last two.
const maxStates = 4

// serveNow answers with the changes since the state that the page has, or that nothing has changed.
func (s *server) serveNow(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	only, since := query.Get("key"), query.Get("since")
	if len(only) > maxKey {
		http.Error(w, "the key is too long", http.StatusBadRequest)
		return
	}
	text, err := s.latest(only, since)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case text == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, text)
	}
}

// latest returns the answer, or nil if the page has the latest state.
func (s *server) latest(only, since string) ([]byte, error) {
	s.now.mu.Lock()
	defer s.now.mu.Unlock()
	live := s.Live()
	tag := "none"
	if live.Snapshot != nil {
		tag = fmt.Sprintf("%d-%t", live.Snapshot.TakenAt.UnixMicro(), live.Lost != nil)
	}
	if tag == since {
		return nil, nil
	}
	states := s.now.states[only]
	if len(states) == 0 || states[len(states)-1].tag != tag {
		latest, err := encodeState(newState(live, s.Target, only), tag)
		if err != nil {
			return nil, err
		}
		s.now.evict(tag, s.Clients)
		states = append(states, latest)
		states = slices.Clone(states[max(0, len(states)-maxStates):])
		s.now.states[only] = states
	}
	known := slices.IndexFunc(states, func(f *encodedState) bool { return f.tag == since })
	if known < 0 {
		return states[len(states)-1].answer(nil)
	}
	return states[len(states)-1].answer(states[known])
}

// evict makes room if there are many keys. It first drops those that no page has requested since the last snapshot.
func (c *cache) evict(tag string, most int) {
	for only, states := range c.states {
		if len(c.states) > most && states[len(states)-1].tag != tag {
			delete(c.states, only)
		}
	}
	if len(c.states) > most {
		clear(c.states)
	}
}

func writeJSON(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client has gone
}

// history reads the state at a given time. It serves one request at a time, since reading a recording is slow.
type history struct {
	past *recording.Past

	mu   sync.Mutex
	at   time.Time
	live Live
}

// eventWindow is how far back from the shown time events are shown.
const eventWindow = time.Minute

func (h *history) moment(at time.Time) (Live, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at.Equal(at) && h.live.Snapshot != nil {
		return h.live, nil
	}
	var live Live
	j := journal.New()
	for frame, err := range h.past.Play(at.Add(-eventWindow)) {
		switch {
		case err != nil:
			return live, err
		case frame.Outage != nil:
			j.Missed(errors.New(frame.Outage.Reason))
		case frame.Snapshot == nil:
		case live.Snapshot != nil && frame.Snapshot.TakenAt.After(at):
			h.at, h.live = at, live
			return live, nil
		default:
			live.Events = append(live.Events, j.See(frame.Snapshot, frame.Ended...)...)
			live.Snapshot = frame.Snapshot
		}
	}
	if live.Snapshot == nil {
		return live, errors.New("nothing is recorded")
	}
	h.at, h.live = at, live
	return live, nil
}

// serveAt answers with the recorded state at a given time.
func (s *server) serveAt(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	at, err := time.Parse(time.RFC3339Nano, query.Get("at"))
	first, last, ok := s.Past.Bounds()
	switch {
	case err != nil || len(query.Get("key")) > maxKey:
		http.Error(w, "want at=2026-11-22T01:14:00Z, and a key that is not too long", http.StatusBadRequest)
		return
	case !ok || at.Before(first.Add(-time.Second)) || at.After(last.Add(time.Second)):
		http.Error(w, "nothing is recorded of that time", http.StatusNotFound)
		return
	}
	live, err := s.then.moment(at)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	state, err := encodeState(newState(live, s.Target, query.Get("key")), "")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text, err := state.answer(nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, text)
}

// maxBars is how many bars a timeline has.
const maxBars = 400

type timeline struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Bars  []bar     `json:"bars"`
}

// bar is the worst state in a part of the period.
type bar struct {
	Waiters   int     `json:"waiters"`
	Longest   float64 `json:"longest_seconds"`
	Deadlocks int     `json:"deadlocks"`
	Seen      bool    `json:"seen"` // whether there was a snapshot
}

// serveTimeline answers with the numbers of waiters over the recorded past.
func (s *server) serveTimeline(w http.ResponseWriter, r *http.Request) {
	n := 200
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > maxBars {
			http.Error(w, fmt.Sprintf("want n between 1 and %d", maxBars), http.StatusBadRequest)
			return
		}
	}
	first, last, _ := s.Past.Bounds()
	text, err := json.Marshal(timelineOf(first, last, slices.Collect(s.Past.Timeline(first, last)), n))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, text)
}

// timelineOf returns no more bars than there are snapshots.
func timelineOf(first, last time.Time, infos []recording.Info, n int) timeline {
	n = max(1, min(n, len(infos)))
	t := timeline{first, last, make([]bar, n)}
	width := max(last.Sub(first)/time.Duration(n), 1)
	for _, info := range infos {
		b := &t.Bars[min(n-1, max(0, int(info.At.Sub(first)/width)))]
		b.Seen = true
		b.Waiters, b.Deadlocks = max(b.Waiters, info.Waiters), max(b.Deadlocks, info.Deadlocks)
		b.Longest = max(b.Longest, info.Longest.Seconds())
	}
	return t
}
