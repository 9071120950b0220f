package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// posts collects what is posted to a webhook.
type posts struct {
	mu   sync.Mutex
	all  []journal.Event
	text string
}

func (p *posts) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body struct {
		Text   string
		Events []journal.Event
	}
	content, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(content, &body)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.text += err.Error()
	}
	p.all, p.text = append(p.all, body.Events...), p.text+body.Text+"\n"
}

func (p *posts) has(kind journal.Kind) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.all {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

func TestMonitorTellsACommandAndAWebhookOfEvents(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	received := &posts{}
	server := httptest.NewServer(received)
	defer server.Close()
	directory := t.TempDir()
	secret := filepath.Join(directory, "webhook")
	must.Succeed(t, os.WriteFile(secret, []byte("# of the team\n"+server.URL+"/services/secret\n"), 0o600))
	output := filepath.Join(directory, "events")
	script := filepath.Join(directory, "told")
	must.Succeed(t, os.WriteFile(script, []byte("#!/bin/sh\ncat >>\""+output+"\"\necho told: \"$PGLOCK_TEXT\"\n"), 0o700)) //nolint:gosec // it is executed

	a, b := db.Connect(t), db.Connect(t)
	_, err := a.Exec(t.Context(), "SELECT pg_advisory_lock(41), pg_advisory_lock(42)")
	must.Succeed(t, err)
	p := on(t, db, "monitor", "--interval", "50ms", "--notify-every", "1s", "--on-event", script, "--webhook-file", secret,
		"--key", "@42", "--notify-kind", "wait-began,passed-on").start()
	p.waitForOutput("watching ")
	db.Queue(t, b, "SET application_name = 'a; touch evil'; SELECT pg_advisory_lock(42)")
	testenv.WaitUntil(t, "a webhook about the wait", func() bool { return received.has(journal.WaitBegan) })
	_, err = a.Exec(context.WithoutCancel(t.Context()), "SELECT pg_advisory_unlock(42), pg_advisory_unlock(41)")
	must.Succeed(t, err)
	testenv.WaitUntil(t, "a webhook about the lock", func() bool { return received.has(journal.PassedOn) })
	p.waitForOutput(": passed from")
	p.signal(os.Interrupt)
	r := p.end()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "told: ", "a; touch evil waits", "\npglock terminate --session ")
	if strings.Contains(r.stderr, "secret") || r.stdout != "" {
		t.Errorf("it printed %s%s", r.stdout, r.stderr)
	}
	told, err := os.ReadFile(output)
	must.Succeed(t, err)
	for line := range strings.Lines(string(told)) {
		var e journal.Event
		must.Succeed(t, json.Unmarshal([]byte(line), &e))
		if e.Key != "@42" || e.Kind != journal.WaitBegan && e.Kind != journal.PassedOn {
			t.Errorf("it was told of %s", line)
		}
	}
	wantText(t, received.text, "@42: ", "passed from")
}

func TestMonitorRefusesToTellWhoeverItCannotReach(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "open")
	must.Succeed(t, os.WriteFile(open, []byte("https://hooks.example/secret"), 0o644)) //nolint:gosec // that is the mistake
	for line, says := range map[string]string{
		"--on-event no-such-program":               `"no-such-program": executable file not found`,
		"--on-event true --once":                   "contradict --once",
		"--webhook hooks.example/secret":           "want a URL",
		"--webhook https://a/ --webhook-file /b":   "contradicts",
		"--webhook-file " + open:                   "other users",
		"--notify-kind deadlock":                   "need --on-event or --webhook",
		"--on-event true --notify-kind everything": "want one of wait-began,",
		"--on-event true --notify-every 0.5":       "at least a second",
	} {
		r := command(t, nil, append([]string{"monitor"}, strings.Fields(line)...)...).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, says)
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%s: a part of the URL is printed: %s", line, r.stderr)
		}
	}
}
