package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// reported has the fields of pglock report -o json that the tests look at.
type reported struct {
	Keys []struct {
		Key      string
		Waits    int
		Max      float64 `json:"max_seconds"`
		Blockers []struct {
			Name    string
			Seconds float64
		}
		Waiters []struct{ Name string }
	}
}

func report(t *testing.T, args ...string) (r reported) {
	t.Helper()
	out := command(t, nil, append([]string{"report", "-o", "json"}, args...)...).run()
	wantCode(t, out, 0)
	must.Succeed(t, json.Unmarshal([]byte(out.stdout), &r))
	return r
}

func TestReportSummarisesARecording(t *testing.T) {
	t.Parallel()
	file, _, _ := recorded(t)
	r := report(t, file, "--since", "1h")
	found := false
	for _, key := range r.Keys { // keys of other tests may be among them
		found = found || key.Key == "@42" && key.Waits == 1 && key.Max > 0 && len(key.Waiters) == 1 &&
			len(key.Blockers) == 1 && key.Blockers[0].Name == "nightly"
	}
	if !found {
		t.Errorf("report: %+v", r)
	}
	out := command(t, nil, "report", file).run()
	wantCode(t, out, 0)
	wantText(t, out.stdout, "@42", "WAITS", "blocked by: nightly ")
}
