package web

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
)

// maxKey bounds the length of the key in a link.
const maxKey = 1000

// cache has the latest answers, about all locks or those with one key. One is made once for any number of pages.
type cache struct {
	mu      sync.Mutex
	answers map[string]answer // by key, or "" for all
}

// answer is a state as JSON, and its tag.
type answer struct {
	tag  string
	text []byte
}

// serveNow answers with the state, or that nothing has changed since the one that the page has.
func (s *server) serveNow(w http.ResponseWriter, r *http.Request) {
	key, ok := keyOfRequest(r)
	if !ok {
		http.Error(w, "the key is too long", http.StatusBadRequest)
		return
	}
	latest, err := s.latest(key)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case latest.tag == r.URL.Query().Get("since"):
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, latest.text)
	}
}

// keyOfRequest returns the key that a page shows, "" for all, or false if it is too long.
func keyOfRequest(r *http.Request) (string, bool) {
	key := r.URL.Query().Get("key")
	return key, len(key) <= maxKey
}

func (s *server) latest(key string) (answer, error) {
	s.now.mu.Lock()
	defer s.now.mu.Unlock()
	live := s.Live()
	tag := live.tag()
	if known := s.now.answers[key]; known.tag == tag {
		return known, nil
	}
	text, err := s.encode(live, key)
	if err != nil {
		return answer{}, err
	}
	if len(s.now.answers) > s.Clients {
		clear(s.now.answers)
	}
	s.now.answers[key] = answer{tag, text}
	return s.now.answers[key], nil
}

// tag names a state. Two that differ have different tags.
func (l Live) tag() string {
	if l.Snapshot == nil {
		return fmt.Sprintf("none-%t", l.Lost != nil)
	}
	return fmt.Sprintf("%d-%t", l.Snapshot.TakenAt.UnixMicro(), l.Lost != nil)
}

func writeJSON(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client has gone
}

// history reads the state at a given time. It serves one request at a time, since reading a recording is slow.
type history struct {
	past *recording.Memory

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
	for frame, err := range h.past.Past().Play(at.Add(-eventWindow)) {
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
	key, fits := keyOfRequest(r)
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
	text, err := s.encode(live, key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, text)
}
