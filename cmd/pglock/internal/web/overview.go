package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// overview answers requests of the page that lists several servers. What matters most of each is the head of its own page.
type overview struct {
	servers []*server
	all     bool
}

// listed is a server in the list.
type listed struct {
	Name string `json:"name"`
	head
}

func (o overview) addTo(s *site) {
	s.addPage("/", "servers.html", "text.js", "access.js", "root.js", "servers.js")
	s.addData("/api/servers", o.serve)
}

// serve answers with the list, or that nothing has changed since the one that the page has. It waits for no server.
func (o overview) serve(w http.ResponseWriter, r *http.Request) {
	all := chosenAll(r, o.all)
	var list struct {
		Tag     string   `json:"tag"`
		All     bool     `json:"all"`
		Servers []listed `json:"servers"`
	}
	tags := []string{}
	for _, s := range o.servers {
		h, tag := s.heads.latest(s, all)
		list.Servers, tags = append(list.Servers, listed{s.Name, h}), append(tags, tag)
	}
	list.Tag, list.All = short(strings.Join(tags, " ")), all
	if list.Tag == r.URL.Query().Get("since") {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	slices.SortStableFunc(list.Servers, func(a, b listed) int { return compareUrgency(a.head, b.head) })
	text, err := json.Marshal(list)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, text)
}

// compareUrgency orders servers, the worst first: those where something waits, as [view.CompareUrgency] orders them, then
// those that do not answer, those where sessions wait without an advisory lock, and the others.
func compareUrgency(a, b head) int {
	if by := cmp.Compare(a.rank(), b.rank()); by != 0 || a.rank() > 0 {
		return by
	}
	return cmp.Or(cmp.Compare(b.dead(), a.dead()), cmp.Compare(b.longest(), a.longest()), cmp.Compare(b.Waiting, a.Waiting))
}

func (h head) rank() int {
	switch {
	case h.Lost != "" || h.At == nil:
		return 1
	case h.Waiting > 0:
		return 0
	case h.Elsewhere > 0:
		return 2
	}
	return 3
}

// dead is 1 if there is a certain deadlock.
func (h head) dead() int {
	if h.Root != nil && h.Root.Deadlock != "" {
		return 1
	}
	return 0
}

func (h head) longest() time.Duration {
	if h.Longest == nil {
		return 0
	}
	return h.At.Sub(*h.Longest)
}

// heads has the latest heads of a server, with waits of every type and without. Each is computed once for any number of
// pages.
type heads struct {
	mu sync.Mutex
	of map[bool]taggedHead // by whether of every type
}

type taggedHead struct {
	head
	tag string
}

func (k *heads) latest(s *server, all bool) (head, string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	live := s.Live()
	if known, ok := k.of[all]; ok && known.tag == live.tag() {
		return known.head, known.tag
	}
	h, _, _ := newHead(live, s.Server, choice{all: all})
	h.Servers = s.among
	if k.of == nil {
		k.of = map[bool]taggedHead{}
	}
	k.of[all] = taggedHead{h, live.tag()}
	return h, live.tag()
}
