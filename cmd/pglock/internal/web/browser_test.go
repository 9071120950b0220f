package web

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browserVariable names a Chromium that shows the page in these tests (make test-browser), and picturesVariable a directory
// for pictures of it.
const (
	browserVariable  = "PGLOCK_TEST_BROWSER"
	picturesVariable = "PGLOCK_TEST_PICTURES"
)

// browse opens a path in a headless browser with the token, and returns what it writes.
func (s *served) browse(path string, args ...string) string {
	s.t.Helper()
	browser := os.Getenv(browserVariable)
	if browser == "" {
		s.t.Skip("make test-browser runs this, with a Chromium")
	}
	u, err := url.Parse(s.URL + path)
	check(s.t, err)
	query := u.Query()
	query.Set("token", s.token)
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	args = append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir=" + s.t.TempDir(), "--virtual-time-budget=4000"}, append(args, u.String())...)
	text, err := exec.CommandContext(ctx, browser, args...).Output()
	if err != nil {
		s.t.Fatalf("%s: %v", browser, err)
	}
	return string(text)
}

func TestBrowserShowsNowAndThen(t *testing.T) {
	s := serve(t, nil)
	now := s.browse("/", "--dump-dom")
	for _, part := range []string{"2 waiters", "invoice:1", "seen since 12:00:00", "3 leaf", "waits for",
		"&lt;img src=x onerror=alert(1)&gt;\\u001b[31m&lt;/script&gt;"} {
		if !strings.Contains(now, part) {
			t.Errorf("now it does not say %q:\n%s", part, now)
		}
	}
	if strings.Contains(now, "<img") || strings.Contains(now, "\x1b") || strings.Contains(now, s.token) {
		t.Errorf("a name became HTML, or the token stayed in the page:\n%s", now)
	}
	then := s.browse("/?at=2026-01-02T12:00:30Z&key=invoice:1", "--dump-dom")
	for _, part := range []string{"1 waiter", "2026-01-02 12:00:30 UTC"} {
		if !strings.Contains(then, part) {
			t.Errorf("then it does not say %q:\n%s", part, then)
		}
	}
}

func TestBrowserPictures(t *testing.T) {
	directory := os.Getenv(picturesVariable)
	if directory == "" {
		t.Skip("make test-browser takes pictures")
	}
	s := serve(t, nil)
	for name, args := range map[string][]string{
		"wide":  {"--window-size=1280,900"},
		"dark":  {"--window-size=1280,900", "--blink-settings=preferredColorScheme=0"},
		"phone": {"--window-size=500,1100"},
	} {
		s.browse("/", append(args, "--screenshot="+filepath.Join(directory, name+".png"))...)
	}
}
