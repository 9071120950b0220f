package monitor_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

func TestJSONBlockersAreNotMoreThanSixteen(t *testing.T) {
	t.Parallel()
	hard := func(pid int32) monitor.Blocker { return monitor.Blocker{PID: pid, Kind: "hard"} }
	for name, c := range map[string]struct{ all, want monitor.Blockers }{
		"none":             {monitor.Blockers{}, monitor.Blockers{}},
		"unknown":          {nil, nil},
		"many holders":     {slices.Repeat(monitor.Blockers{hard(1)}, 20), slices.Repeat(monitor.Blockers{hard(1)}, 16)},
		"a prepared <one>": {monitor.Blockers{{GID: "<\n\">", Kind: "hard"}}, monitor.Blockers{{GID: "<\n\">", Kind: "hard"}}},
	} {
		text, err := json.Marshal(monitor.Waiter{BlockedBy: c.all})
		must.Succeed(t, err)
		var read monitor.Waiter
		must.Succeed(t, json.Unmarshal(text, &read))
		if !reflect.DeepEqual(read.BlockedBy, c.want) {
			t.Errorf("%s: %+v is read back as %+v from %s", name, c.all, read.BlockedBy, text)
		}
	}
}
