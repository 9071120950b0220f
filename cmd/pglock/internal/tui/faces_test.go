package tui

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/web"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// scene makes a snapshot of sessions that are named after their process IDs.
type scene struct{ monitor.Snapshot }

func (s *scene) session(pid int32) monitor.Session { return session(pid, fmt.Sprintf("s%d", pid)) }

// lock adds an advisory lock that some sessions hold.
func (s *scene) lock(number int64, holders ...int32) *monitor.Lock {
	l := lock(pglock.Int64Key(number))
	for _, pid := range holders {
		l.Holders = append(l.Holders, holds(s.session(pid), monitor.ModeExclusive))
	}
	s.Locks = append(s.Locks, l)
	return &s.Locks[len(s.Locks)-1]
}

// wait adds a waiter for an advisory lock that the scene has.
func (s *scene) wait(number int64, pid int32, seconds time.Duration, blockers ...monitor.Blocker) {
	for i := range s.Locks {
		if l := &s.Locks[i]; l.Number == number {
			l.Waiters = append(l.Waiters, waits(s.session(pid), monitor.ModeExclusive, seconds*time.Second, blockers...))
		}
	}
}

// other adds a session that waits for a table, as its parallel workers do.
func (s *scene) other(table string, pid int32, seconds time.Duration, blockers ...monitor.Blocker) {
	s.OtherWaits = append(s.OtherWaits, monitor.OtherWait{Lock: monitor.OtherLock{Type: "relation", Relation: 1, Name: table},
		Waiter: waits(s.session(pid), monitor.ModeExclusive, seconds*time.Second, blockers...)})
}

var faceScenes = map[string]func(*scene){
	"workers with two waits, the last the longest": func(s *scene) {
		s.lock(1, 10)
		s.wait(1, 11, 5, hardBlocker(10))
		s.other("a", 10, 2, hardBlocker(20))
		s.other("b", 10, 9, hardBlocker(21))
		s.OtherSessions = []monitor.Session{s.session(20), s.session(21)}
	},
	"workers with two waits, the first the longest": func(s *scene) {
		s.lock(1, 10)
		s.wait(1, 11, 5, hardBlocker(10))
		s.other("a", 10, 9, hardBlocker(20))
		s.other("b", 10, 2, hardBlocker(21))
		s.OtherSessions = []monitor.Session{s.session(20), s.session(21)}
	},
	"workers with a soft and a hard wait": func(s *scene) {
		s.lock(1, 10)
		s.other("a", 10, 9, softBlocker(20))
		s.other("b", 10, 2, softBlocker(20), hardBlocker(21))
		s.other("a", 20, 10, hardBlocker(21))
		s.OtherSessions = []monitor.Session{s.session(20), s.session(21)}
	},
	"a leader that waits, and its workers": func(s *scene) {
		s.lock(1, 10)
		s.lock(2, 12)
		s.wait(1, 12, 1, hardBlocker(10))
		s.other("a", 12, 8, hardBlocker(9))
		s.OtherSessions = []monitor.Session{s.session(9)}
	},
	"a cycle": func(s *scene) {
		s.lock(1, 31)
		s.lock(2, 32)
		s.wait(2, 31, 4, hardBlocker(32))
		s.wait(1, 32, 3, hardBlocker(31))
		s.wait(1, 33, 2, hardBlocker(31), softBlocker(32))
		s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 31, Key: "@2", Database: "shop", BlockedBy: 32},
			{PID: 32, Key: "@1", Database: "shop", BlockedBy: 31}}}}
	},
	"a cycle through a wait that is neither the first nor hard": func(s *scene) {
		s.lock(1, 31)
		s.lock(2, 5)
		s.wait(1, 32, 3, hardBlocker(31))
		s.wait(2, 31, 2, hardBlocker(5), softBlocker(32))
		s.wait(2, 32, 6, hardBlocker(5))
	},
	"two cycles that share a session": func(s *scene) {
		s.lock(1, 41)
		s.lock(2, 42)
		s.lock(3, 43)
		s.wait(2, 41, 5, hardBlocker(42))
		s.wait(1, 42, 4, hardBlocker(41))
		s.other("a", 42, 8, hardBlocker(43))
		s.wait(2, 43, 3, hardBlocker(42))
	},
	"two cycles apart, and one behind both": func(s *scene) {
		s.lock(1, 52)
		s.lock(2, 51, 54)
		s.lock(3, 53)
		s.wait(1, 51, 5, hardBlocker(52))
		s.wait(2, 52, 4, hardBlocker(51))
		s.wait(2, 53, 3, hardBlocker(54))
		s.wait(3, 54, 2, hardBlocker(53))
		s.other("a", 55, 2, hardBlocker(51), hardBlocker(54))
	},
	"prepared holders": func(s *scene) {
		l := s.lock(1, 62)
		for _, gid := range []string{"b", "a"} {
			l.Holders = append(l.Holders, holds(monitor.Session{GID: gid, PreparedAt: ago(time.Hour)}, monitor.ModeShared))
		}
		s.wait(1, 63, 7, monitor.Blocker{GID: "a", Kind: monitor.BlockHard}, monitor.Blocker{GID: "b", Kind: monitor.BlockHard}, hardBlocker(62))
		s.wait(1, 64, 3, softBlocker(63))
		s.other("a", 62, 2, monitor.Blocker{GID: "b", Kind: monitor.BlockHard})
	},
	"soft blocks": func(s *scene) {
		s.lock(1, 79)
		s.wait(1, 71, 3, softBlocker(72), softBlocker(73))
		s.wait(1, 72, 4, softBlocker(73), hardBlocker(79))
		s.wait(1, 73, 5, hardBlocker(79))
	},
	"a session that has gone, and one that is hidden": func(s *scene) {
		s.lock(1, 81)
		s.wait(1, 82, 3, softBlocker(7))
		s.wait(1, 83, 2)
		s.other("a", 81, 1)
		hidden := &s.Locks[0].Waiters[0]
		hidden.Hidden, hidden.Application, hidden.WaitingSince = []string{"application", "state", "waiting_since"}, "", nil
	},
	"several databases": func(s *scene) {
		s.lock(1, 91)
		s.wait(1, 92, 3, hardBlocker(91))
		elsewhere := s.lock(1, 93)
		elsewhere.Database, elsewhere.DatabaseOID = "billing", 6
		elsewhere.Waiters = []monitor.Waiter{waits(s.session(94), monitor.ModeExclusive, time.Second, hardBlocker(93))}
		s.other("a", 91, 9, hardBlocker(93))
	},
}

// shownSession is what a face shows of a session.
type shownSession struct {
	parent, state string
	behind        int
}

// treeOfView returns what the view shows: the parents from the guides, and the states.
func treeOfView(s *monitor.Snapshot, only view.Filter) map[string]shownSession {
	table := arrange(s, tableQuery{page: pageTree, only: only})
	shown, path := map[string]shownSession{}, []string{}
	sessions := Model{table: table} // its page of sessions says what the tree draws
	sessions.table.query.page = pageSessions
	for _, r := range table.rows {
		if r.id.repeated {
			continue
		}
		depth := utf8.RuneCountInString(r.guide) / 3
		id := nameOf(r.id.session.PID, r.id.session.GID)
		path = append(path[:depth], id)
		one := shownSession{behind: r.behind}
		if depth > 0 {
			one.parent = path[depth-1]
		}
		if state := stateCell(sessions, r); strings.HasPrefix(state, "blocked by ") {
			one.state = state
		}
		shown[id] = one
	}
	return shown
}

// nodeOfPage is a session as the page gets it in JSON.
type nodeOfPage struct {
	ID     string
	Depth  int
	PID    int32
	GID    string
	Behind int
	Wait   *struct {
		Lock             struct{ Label string }
		PID              int32
		GID, Application string
	}
}

func treeOfPage(t *testing.T, s *monitor.Snapshot, key string) map[string]shownSession {
	shown, path := map[string]shownSession{}, []string{}
	for _, n := range nodesOfPage(t, s, key) {
		id := nameOf(n.PID, n.GID)
		path = append(path[:n.Depth], id)
		one := shownSession{behind: n.Behind}
		if n.Depth > 0 {
			one.parent = path[n.Depth-1]
		}
		if n.Wait != nil && (n.Wait.PID != 0 || n.Wait.GID != "") {
			one.state = fmt.Sprintf("blocked by %s, %s", strings.TrimSpace(nameOf(n.Wait.PID, n.Wait.GID)+" "+n.Wait.Application), n.Wait.Lock.Label)
		}
		shown[id] = one
	}
	return shown
}

// nodesOfPage logs in and asks for the tree, as the page does.
func nodesOfPage(t *testing.T, s *monitor.Snapshot, key string) []nodeOfPage {
	page := httptest.NewServer(web.New(web.Options{Token: "t0ken", Clients: 1, Past: recording.NewMemory(1 << 20),
		Live: func() web.Live { return web.Live{Snapshot: s} }}))
	t.Cleanup(page.Close)
	jar, err := cookiejar.New(nil)
	must.Succeed(t, err)
	secret := ""
	client := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		_, secret, _ = strings.Cut(r.URL.Fragment, "secret=")
		return nil
	}}
	login, err := client.Get(page.URL + "/?token=t0ken")
	must.Succeed(t, err)
	must.Succeed(t, login.Body.Close())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page.URL+"/api/now?key="+url.QueryEscape(key), nil)
	must.Succeed(t, err)
	r.Header.Set("Pglock-Secret", secret)
	answer, err := client.Do(r)
	must.Succeed(t, err)
	text, err := io.ReadAll(answer.Body)
	must.Succeed(t, err)
	must.Succeed(t, answer.Body.Close())
	var now struct{ Tree []nodeOfPage }
	if err := json.Unmarshal(text, &now); err != nil || len(now.Tree) == 0 {
		t.Fatalf("the page gets %d %s: %v", answer.StatusCode, text, err)
	}
	return now.Tree
}

// blockersInText returns the first blocker that the text names for each session and lock, as "11 @1", and the lines that
// say by which session a holder is blocked.
func blockersInText(s *monitor.Snapshot, only view.Filter) (first, states map[string]string) {
	first, states = map[string]string{}, map[string]string{}
	key, holder := "", ""
	for _, line := range view.Table(s, only, view.Server{Target: "server"}, 10_000) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "@"):
			key = words[0]
		case strings.HasPrefix(line, "  holds"):
			if holder = words[1]; holder == "-" {
				_, gid, _ := strings.Cut(line, "prepared transaction ")
				holder, _, _ = strings.Cut(gid, ",")
			}
		case strings.HasPrefix(line, "        blocked by "):
			states[holder] = strings.TrimSpace(line)
		case strings.HasPrefix(line, "  waits") && len(words) > 8:
			first[words[1]+" "+key] = strings.TrimPrefix(words[8], "~")
		case strings.Contains(line, " waits for ") && strings.Contains(line, ", blocked by "):
			_, label, _ := strings.Cut(line, ": ")
			label, blockers, _ := strings.Cut(label, ", blocked by ")
			first[words[0]+" "+strings.TrimSuffix(label, " (excl)")] = strings.TrimPrefix(strings.Fields(blockers)[0], "~")
		}
	}
	return first, states
}

// nameOf names a session as the faces do.
func nameOf(pid int32, gid string) string { return view.Who(monitor.Session{PID: pid, GID: gid}) }

// The view, the page and the text agree on what each session waits for, and on the session above it.
func TestAllFacesShowTheSameTree(t *testing.T) {
	for name, build := range faceScenes {
		for _, key := range []string{"", "@1"} {
			t.Run(strings.TrimSpace(name+" "+key), func(t *testing.T) {
				s := &scene{monitor.Snapshot{TakenAt: noon, Database: "shop", Role: "dba"}}
				build(s)
				only := view.Filter{}
				if key != "" {
					only.Keys = []pglock.Key{pglock.Int64Key(1)}
				}
				ofView, ofPage := treeOfView(&s.Snapshot, only), treeOfPage(t, &s.Snapshot, key)
				for id, one := range ofPage { // the page does not mark names that it does not know
					if one.state != "" {
						one.state = strings.Replace(one.state, "blocked by 7,", "blocked by 7 ?,", 1)
						ofPage[id] = one
					}
				}
				if !maps.Equal(ofView, ofPage) {
					t.Errorf("the view shows\n%s\nthe page shows\n%s", listed(ofView), listed(ofPage))
				}
				first, states := blockersInText(&s.Snapshot, only)
				for id, state := range states {
					if ofView[id].state != state {
						t.Errorf("the text says that %s is %q, the view %q", id, state, ofView[id].state)
					}
				}
				checked := len(states)
				for id, one := range ofView {
					blocker, label, _ := strings.Cut(strings.TrimPrefix(one.state, "blocked by "), ", ")
					if inText, ok := first[id+" "+label]; ok {
						if checked++; inText != strings.Fields(blocker)[0] {
							t.Errorf("of %s, %s the text names %s first, the view says %s", id, label, inText, one.state)
						}
					}
				}
				if checked == 0 {
					t.Error("the text names no blocker")
				}
			})
		}
	}
}

func listed(shown map[string]shownSession) string {
	var lines []string
	for id, one := range shown {
		lines = append(lines, fmt.Sprintf("%s below %q, %d behind, %s", id, one.parent, one.behind, one.state))
	}
	return strings.Join(lines, "\n")
}
