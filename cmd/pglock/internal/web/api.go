package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	states map[choice][]*encodedState // by what they show, the latest last
}

// maxStates is how many states of one key are kept. A page that polls every second has one of the last two.
const maxStates = 4

// serveNow answers with the changes since the state that the page has, or that nothing has changed.
func (s *server) serveNow(w http.ResponseWriter, r *http.Request) {
	c, ok := s.choice(r)
	if !ok {
		http.Error(w, "the key is too long", http.StatusBadRequest)
		return
	}
	text, err := s.latest(c, r.URL.Query().Get("since"))
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case text == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, text)
	}
}

// choice returns what a page has chosen to see, or false if its key is too long.
func (s *server) choice(r *http.Request) (choice, bool) {
	c := choice{key: r.URL.Query().Get("key"), all: chosenAll(r, s.all)}
	return c, len(c.key) <= maxKey
}

// chosenAll says whether a page has chosen waits of every type.
func chosenAll(r *http.Request, otherwise bool) bool {
	if text := r.URL.Query().Get("all"); text != "" {
		return text == "1"
	}
	return otherwise
}

// latest returns the answer, or nil if the page has the latest state.
func (s *server) latest(c choice, since string) ([]byte, error) {
	s.now.mu.Lock()
	defer s.now.mu.Unlock()
	live := s.Live()
	tag := live.tag()
	if tag == since {
		return nil, nil
	}
	states := s.now.states[c]
	if len(states) == 0 || states[len(states)-1].tag != tag {
		latest, err := encodeState(s.state(live, c), tag)
		if err != nil {
			return nil, err
		}
		s.now.evict(tag, s.clients)
		states = append(states, latest)
		states = slices.Clone(states[max(0, len(states)-maxStates):])
		s.now.states[c] = states
	}
	known := slices.IndexFunc(states, func(f *encodedState) bool { return f.tag == since })
	if known < 0 {
		return states[len(states)-1].answer(nil)
	}
	return states[len(states)-1].answer(states[known])
}

// tag names a state. Two that differ have different tags.
func (l Live) tag() string {
	if l.Snapshot == nil {
		return fmt.Sprintf("none-%t", l.Lost != nil)
	}
	return fmt.Sprintf("%d-%t", l.Snapshot.TakenAt.UnixMicro(), l.Lost != nil)
}

// evict makes room if there are many keys. It first drops those that no page has requested since the last snapshot.
func (c *cache) evict(tag string, most int) {
	for of, states := range c.states {
		if len(c.states) > most && states[len(states)-1].tag != tag {
			delete(c.states, of)
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
	c, fits := s.choice(r)
	switch {
	case err != nil || !fits:
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
	state, err := encodeState(s.state(live, c), "")
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
