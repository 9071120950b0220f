package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// deadlocked is a snapshot in which 2 and 3 wait for each other.
func deadlocked() *monitor.Snapshot {
	s := snapshot(noon)
	s.Locks[0].Holders[0].Session = s.Locks[1].Waiters[0].Session
	s.Locks[0].Waiters[0].BlockedBy[0].PID = 3
	s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 2, Key: "invoice:1", BlockedBy: 3}, {PID: 3, Key: "export:daily", BlockedBy: 2}}}}
	return s
}

// quiet is a snapshot in which nothing waits.
func quiet() *monitor.Snapshot {
	s := snapshot(noon)
	for i := range s.Locks {
		s.Locks[i].Waiters = nil
	}
	return s
}

// onlyElsewhere is a snapshot in which two sessions wait, for a table.
func onlyElsewhere() *monitor.Snapshot {
	s := elsewhere()
	s.Locks = nil
	return s
}

func named(name, label string, live func() Live) Server {
	return Server{Name: name, Label: label, Target: "dba@" + label, Flags: " -d service=" + name, Live: live, Past: recording.NewPast()}
}

func always(live Live) func() Live { return func() Live { return live } }

// severalScenes are servers, the worst last.
func severalScenes() []Server {
	refused := errors.New("dial error\n\tconnection refused")
	longer := pileUp(noon, 7)
	longer.Server.InRecovery = true
	began := noon.Add(-4 * time.Minute)
	longer.Locks[0].Waiters[0].WaitingSince = &began
	return []Server{
		named("archive", "archive", always(Live{Snapshot: quiet()})),
		named("reports", "reports", always(Live{Snapshot: onlyElsewhere()})),
		named("gone", "gone", always(Live{Snapshot: snapshot(noon.Add(-time.Hour)), Lost: refused})),
		named("new", "new", always(Live{})),
		named("hostile", hostile, always(Live{Snapshot: snapshot(noon)})),
		named("billing", "billing", always(Live{Snapshot: longer})),
		named("orders", "orders", always(Live{Snapshot: deadlocked()})),
	}
}

func serveSeveral(t testing.TB, servers ...Server) *testPage {
	t.Helper()
	return serveOptions(t, Options{Token: "t0ken", Clients: 3, Servers: servers})
}

type gotList struct {
	Tag     string
	All     bool
	Servers []listed
}

func (s *testPage) list(path string) (list gotList) {
	s.t.Helper()
	text := s.want(http.StatusOK, path)
	if strings.Contains(text, "<img") {
		s.t.Errorf("%s has HTML: %s", path, text)
	}
	must.Succeed(s.t, json.Unmarshal([]byte(text), &list))
	return list
}

func TestOverviewHasTheWorstServerFirst(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, severalScenes()...).login()
	list := s.list("/api/servers")
	names := func(list gotList) (all []string) {
		for _, one := range list.Servers {
			all = append(all, one.Name)
		}
		return all
	}
	if got := names(list); !slices.Equal(got, []string{"orders", "billing", "hostile", "gone", "new", "reports", "archive"}) {
		t.Errorf("the order is %q", got)
	}
	worst, lost, calm := list.Servers[0], list.Servers[3], list.Servers[6]
	if worst.Root == nil || worst.Root.Deadlock == "" || worst.Root.Command != "pglock terminate -d service=orders --session 2@2026-01-02T11:00:00Z" {
		t.Errorf("the deadlock: %+v", worst.Root)
	}
	if lost.Lost != "dial error connection refused" || lost.At == nil || !strings.HasPrefix(lost.Headline, "1 root, ") {
		t.Errorf("the one that is lost: %+v", lost)
	}
	if calm.Root != nil || calm.Headline != "Nothing waits. 2 locks held." || list.Servers[2].Label != hostile {
		t.Errorf("the quiet one: %+v", calm)
	}
	s.want(http.StatusNoContent, "/api/servers?since="+list.Tag)
	// With waits of every type the server of reports has some.
	if wide := s.list("/api/servers?all=1"); wide.Servers[3].Name != "reports" || wide.Servers[3].Waiting != 2 || !wide.All {
		t.Errorf("with all locks the order is %q", names(wide))
	}
}

// pathsOfSeveral are the paths of the list, and of the pages of the given servers.
func pathsOfSeveral(names ...string) []string {
	all := []string{"/", "/style.css", "/text.js", "/access.js", "/root.js", "/servers.js", "/api/servers"}
	for _, name := range names {
		for _, path := range paths {
			if !strings.HasPrefix(path, "/api/at") { // nothing is recorded
				all = append(all, "/server/"+name+path)
			}
		}
	}
	return all
}

// data matches the paths that need the secret too.
var data = regexp.MustCompile(`/api/(servers|now|timeline)$`)

func TestPagesOfSeveralServersNeedTheToken(t *testing.T) {
	t.Parallel()
	fresh := func() *testPage {
		return serveSeveral(t, append(severalScenes(), named("api", "api", always(Live{Snapshot: quiet()})))...)
	}
	s, all := fresh(), pathsOfSeveral("api", "archive", "orders")
	for _, path := range append(all, "/server/orders/?token=wrong", "/server/orders/api/now?token=t0ken", "/api/servers?token=t0ken", "/server/none/?token=t0ken") {
		s.want(http.StatusUnauthorized, path)
	}
	s.login()
	for _, path := range all {
		s.want(http.StatusOK, path)
		if data.MatchString(path) {
			s.want(http.StatusUnauthorized, path, secretHeader, "")
		}
		s.want(http.StatusForbidden, path, "Sec-Fetch-Site", "cross-site")
		s.want(http.StatusMisdirectedRequest, path, "Host", "evil.example")
	}
	for _, path := range []string{"/server/none/", "/server/none/api/now", "/server/", "/api/now", "/api/timeline", "/app.js", "/server/orders/servers.js"} {
		s.want(http.StatusNotFound, path)
	}
	// The page of a server is one that a link can lead to, with the token or from another site.
	other := fresh()
	other.want(http.StatusOK, "/server/orders/?token=t0ken&key=a%26b")
	other.want(http.StatusOK, "/server/archive/api/now")
	text := other.want(http.StatusOK, "/server/orders/", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	if !strings.Contains(text, "refresh") {
		t.Errorf("the page is %q", text)
	}
}

func TestPageOfOneOfSeveralServersHasOnlyItsState(t *testing.T) {
	t.Parallel()
	s := serveSeveral(t, severalScenes()...).login()
	orders, archive := s.state("/server/orders/api/now"), s.state("/server/archive/api/now")
	if orders.Label != "orders" || orders.Servers != 7 || orders.Root == nil || archive.Label != "archive" || archive.Root != nil || len(archive.Tree.Set) > 0 {
		t.Errorf("orders: %+v\narchive: %+v", orders.head, archive.head)
	}
}

// The answer is made once for any number of pages, and again when a server is lost or answers.
func TestOverviewFollowsWhatChanges(t *testing.T) {
	t.Parallel()
	var live atomic.Pointer[Live]
	live.Store(&Live{})
	s := serveSeveral(t, named("a", "a", always(Live{Snapshot: quiet()})), named("b", "b", func() Live { return *live.Load() })).login()
	tag := ""
	for i, step := range []struct {
		live Live
		want func(listed) bool
	}{
		{Live{}, func(l listed) bool { return l.At == nil && l.Lost == "" }},
		{Live{Lost: errors.New("refused")}, func(l listed) bool { return l.At == nil && l.Lost == "refused" }},
		{Live{Snapshot: snapshot(noon)}, func(l listed) bool { return l.At != nil && l.Waiting == 2 }},
		{Live{Snapshot: snapshot(noon), Lost: errors.New("refused")}, func(l listed) bool { return l.Lost == "refused" && l.Waiting == 2 }},
		{Live{Snapshot: snapshot(noon)}, func(l listed) bool { return l.Lost == "" && l.Waiting == 2 }},
	} {
		live.Store(&step.live)
		list := s.list("/api/servers?since=" + tag)
		at := slices.IndexFunc(list.Servers, func(l listed) bool { return l.Name == "b" })
		if !step.want(list.Servers[at]) || list.Tag == tag {
			t.Errorf("step %d: %+v", i, list.Servers[at])
		}
		tag = list.Tag
	}
}
