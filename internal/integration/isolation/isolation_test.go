// Package isolation runs transactions over the functions of locks in rows in all orders of their steps, with PostgreSQL's
// own isolationtester. The oracle is an advisory lock, held from the commit of a grant to the begin of its drop.
package isolation

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestProgramIsolationOfLocksInRows(t *testing.T) {
	run(t, "newkey", "settle", "rollback", "guard_serializable", "broken")
}

// TestFaultsIsolationOfLocksInRows takes some minutes: make faults.
func TestFaultsIsolationOfLocksInRows(t *testing.T) {
	if os.Getenv("PGLOCK_TEST_ISOLATION") == "" {
		t.Skip("PGLOCK_TEST_ISOLATION is not set")
	}
	run(t, "exclusive", "shared", "expiry", "settle_open", "guard", "guard_drop", "guard_shared", "waiters", "waiters_mixed")
}

// run runs specifications. In broken, which frees a lock behind the back of its holder, two holders are to be found.
func run(t *testing.T, specs ...string) {
	t.Helper()
	tester := findTester(t)
	db := testenv.Installed(t)
	helpers, err := os.ReadFile("testdata/helpers.sql")
	must.Succeed(t, err)
	_, err = db.Pool(t).Exec(t.Context(), string(helpers))
	must.Succeed(t, err)
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", spec+".spec"))
			must.Succeed(t, err)
			cmd := exec.Command(tester, db.ConnString())
			cmd.Stdin, cmd.Env = bytes.NewReader(text), append(os.Environ(), "PGISOLATIONTIMEOUT=1")
			output, err := cmd.CombinedOutput()
			must.Succeed(t, err)
			orders, wrong := judge(string(output))
			if wrongIsWanted := spec == "broken"; orders == 0 || (wrong != "") != wrongIsWanted {
				t.Errorf("%d orders; one that is wrong:\n%s", orders, wrong)
			}
			t.Logf("%d orders", orders)
		})
	}
}

var violation = regexp.MustCompile(`(?m)^(ERROR:  )?VIOLATION`)

// judge counts the orders that can happen: not those in which the tester has cancelled a step that waited for a later one.
func judge(output string) (orders int, wrong string) {
	for _, order := range strings.Split(output, "starting permutation: ")[1:] {
		if strings.Contains(order, "canceling statement due to user request") {
			continue
		}
		if orders++; violation.MatchString(order) {
			wrong = order
		}
	}
	return orders, wrong
}

// findTester returns the program, which is in the server's package for the development of extensions.
func findTester(t *testing.T) string {
	t.Helper()
	binaries, err := pgserver.Find()
	must.Succeed(t, err)
	for _, lib := range []string{"lib", "../lib"} {
		tester := filepath.Join(binaries.Dir, "..", lib, "pgxs/src/test/isolation/isolationtester")
		if _, err := os.Stat(tester); err == nil {
			return tester
		}
	}
	t.Skipf("no isolationtester beside %s: Debian's packages of PostgreSQL have it, others have to be compiled with it", binaries)
	return ""
}
