package notify_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/notify"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

const hostile = `$(touch evil) ; touch evil & <!channel> "'` + "`touch evil`\n\x00\x1b]0;x\x07\u202e"

func hostileGroup() notify.Group {
	e := event(journal.WaitBegan, 42)
	e.Key, e.Session.Application = hostile, hostile
	return notify.Group{Events: []journal.Event{e}, Omitted: 2}
}

func TestNotifyCommandGetsEventsAsDataOnly(t *testing.T) {
	directory := t.TempDir()
	script := filepath.Join(directory, "on event.sh")                                                                                                       // a space, so that NewCommand does not find it
	must.Succeed(t, os.WriteFile(script, []byte("#!/bin/sh\ncat >input\nprintf %s \"$PGLOCK_TEXT\" >text\necho \"$PGLOCK_EVENTS\" \"$@\" >args\n"), 0o700)) //nolint:gosec // it is executed
	if _, err := notify.NewCommand(script); err == nil {
		t.Error("a program with a space in its name is found")
	}
	must.Succeed(t, os.Rename(script, filepath.Join(directory, "on-event.sh")))
	t.Chdir(directory)
	c, err := notify.NewCommand("./on-event.sh $HOME *  two")
	must.Succeed(t, err)
	_, err = c.Deliver(t.Context(), hostileGroup())
	must.Succeed(t, err)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(directory, name))
		must.Succeed(t, err)
		return string(text)
	}
	var e journal.Event
	must.Succeed(t, json.Unmarshal([]byte(read("input")), &e))
	if e.Key != hostile || strings.Count(read("input"), "\n") != 1 {
		t.Errorf("the input is %q", read("input"))
	}
	if text := read("text"); strings.ContainsAny(text, "\x00\x1b\u202e") || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n2 more events") {
		t.Errorf("the text is %q", text)
	}
	if args := read("args"); args != "3 $HOME * two\n" {
		t.Errorf("the arguments are %q", args)
	}
	if _, err := os.Stat("evil"); err == nil {
		t.Error("a name was executed")
	}
}

func TestNotifyCommandThatFailsOrHangs(t *testing.T) {
	c, err := notify.NewCommand("false")
	must.Succeed(t, err)
	if later, err := c.Deliver(t.Context(), hostileGroup()); later || err == nil || err.Error() != "exit status 1" {
		t.Errorf("later %t, %v", later, err)
	}
	c, err = notify.NewCommand("sleep 3600")
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Deliver(ctx, hostileGroup()); err == nil {
		t.Error("it goes on after its time")
	}
}

func TestNotifyWebhookPostsWhatSlackReads(t *testing.T) {
	var body []byte
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.URL.Path != "/services/T0/secret" {
			t.Errorf("%s %s as %s", r.Method, r.URL, r.Header.Get("Content-Type"))
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(code)
	}))
	defer server.Close()
	w, err := notify.NewWebhook(server.URL + "/services/T0/secret")
	must.Succeed(t, err)
	if strings.Contains(w.String(), "secret") {
		t.Errorf("it is called %s", w)
	}
	for answer, wantLater := range map[int]bool{200: false, 204: false, 302: false, 403: false, 429: true, 503: true} {
		code = answer
		later, err := w.Deliver(t.Context(), hostileGroup())
		if later != wantLater || (err == nil) != (answer < 300) || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("answer %d: later %t, %v", answer, later, err)
		}
	}
	var posted struct {
		Text    string
		Events  []journal.Event
		Omitted int
	}
	must.Succeed(t, json.Unmarshal(body, &posted))
	if strings.ContainsAny(posted.Text, "<>\x1b\x00") || !strings.Contains(posted.Text, "&lt;!channel&gt;") {
		t.Errorf("the text is %q", posted.Text)
	}
	if len(posted.Events) != 1 || posted.Events[0].Key != hostile || posted.Omitted != 2 {
		t.Errorf("posted was %s", body)
	}
}

func TestNotifyWebhookErrorsDoNotContainTheURL(t *testing.T) {
	for _, address := range []string{"", "hooks.example/secret", "ftp://hooks.example/secret", "http://%zz/secret", "https:///secret", "http://127.0.0.1:1/secret\n"} {
		if _, err := notify.NewWebhook(address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	server := httptest.NewServer(nil)
	server.Close()
	w, err := notify.NewWebhook(strings.Replace(server.URL, "http://", "http://user:secret@", 1) + "/secret?secret")
	must.Succeed(t, err)
	later, err := w.Deliver(t.Context(), hostileGroup())
	if !later || err == nil || strings.Contains(err.Error()+w.String(), "secret") {
		t.Errorf("later %t, %v to %s", later, err, w)
	}
}
