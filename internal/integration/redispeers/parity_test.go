package redispeers_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// surface prints the methods of redis-py's Lock, and what they accept.
const surface = `
import inspect
from redis.lock import Lock
names = [name for name in vars(Lock) if inspect.isfunction(vars(Lock)[name]) and not name.startswith(("_", "do_", "register_"))]
accepted = {p for f in [Lock.__init__] + [vars(Lock)[name] for name in names] for p in inspect.signature(f).parameters}
print(*names, *(accepted - {"self", "redis", "additional_time"}))`

// The table in package redisfallback has all that redis-py's Lock has, and names only what there is here.
func TestTheTableForRedisPyIsComplete(t *testing.T) {
	doc, err := os.ReadFile("../../../redisfallback/doc.go")
	must.Succeed(t, err)
	api, err := os.ReadFile("../../../docs/api.txt")
	must.Succeed(t, err)
	_, table, _ := strings.Cut(string(doc), "What redis-py's Lock has")
	table, _, found := strings.Cut(table, "\n//\n// #")
	if !found {
		t.Fatal("package redisfallback has no table for users of redis-py")
	}
	var theirs, ours strings.Builder
	for line := range strings.Lines(table) {
		if their, our, ok := strings.Cut(strings.TrimPrefix(line, "//\t"), "   "); ok {
			theirs.WriteString(their + "\n")
			ours.WriteString(our)
		}
	}
	names, err := exec.Command(findPython(t), "-c", surface).Output()
	must.Succeed(t, err)
	for _, name := range strings.Fields(string(names)) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(theirs.String()) {
			t.Errorf("the table does not have %s", name)
		}
	}
	for _, name := range regexp.MustCompile(`\b(?:[A-Z]\w*\(|Err\w+)`).FindAllString(ours.String(), -1) {
		if !regexp.MustCompile(`\b` + strings.TrimSuffix(name, "(") + `\b`).Match(api) {
			t.Errorf("the table names %s, which is not in the API", name)
		}
	}
}
