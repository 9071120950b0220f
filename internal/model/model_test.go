package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func requirePrograms(t *testing.T) {
	t.Helper()
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v (make prepare installs it)", err)
		}
	}
}

func TestProgramModelSearchSeesNoViolation(t *testing.T) {
	requirePrograms(t)
	for _, c := range configurations {
		if c.live() || !c.Fast {
			continue
		}
		r, err := exhaust(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		t.Logf("%s: %d states, %v", c.Name, r.States, r.Processor)
	}
}

func TestProgramModelSearchSeesWhatHappensAtLast(t *testing.T) {
	requirePrograms(t)
	fast := func(c configuration) bool { return c.Fast }
	err := eachProperty(t.Context(), fast, func(c configuration, property string, r result) {
		t.Logf("%s, %s: %d states, %v", c.Name, property, r.States, r.Processor)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestProgramModelSearchFailsWithoutEachStep(t *testing.T) {
	requirePrograms(t)
	err := eachMutation(t.Context(), func(m mutation) bool { return m.Breaks != "" }, func(m mutation, c configuration, r result) error {
		if r.Violated != m.Breaks {
			t.Errorf("%s in %s breaks %q, not %q:\n%s", m.Name, c.Name, r.Violated, m.Breaks, strings.Join(r.Steps, "\n"))
		}
		t.Logf("%s: %s after %d steps, %d states, %v", m.Name, r.Violated, len(r.Steps), r.States, r.Processor)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Succeed(t, err)
	return string(text)
}

const (
	page = "../../docs/internals/model.md"
	root = "../../"
)

var (
	action   = regexp.MustCompile(`printf\("([^"\\]+)\\n"`)
	verb     = regexp.MustCompile(`%d`)
	mutated  = regexp.MustCompile(`(?m)^#define ([A-Z_]{3,}) (\d+)$`)
	property = regexp.MustCompile(`(?:VIOLATION|ltl) (\w+)`)
)

// Each action of a model has its row in the page.
func TestModelPageHasEachAction(t *testing.T) {
	text := readPage(t, page)
	for _, file := range files() {
		model := readPage(t, file)
		for _, found := range action.FindAllStringSubmatch(model, -1) {
			name := verb.ReplaceAllString(found[1], "N")
			if !strings.HasPrefix(name, "VIOLATION") && !strings.Contains(text, "| "+name+" |") {
				t.Errorf("%s does not explain %q of %s", page, name, file)
			}
		}
		for _, found := range property.FindAllStringSubmatch(model, -1) {
			if !strings.Contains(text, "`"+found[1]+"`") {
				t.Errorf("%s does not explain the property %s of %s", page, found[1], file)
			}
		}
	}
}

// Each function that the page names exists.
func TestModelPageNamesFunctionsThatExist(t *testing.T) {
	rows := regexp.MustCompile("`([\\w./-]+\\.(?:go|sql))` `([^`]+)`").FindAllStringSubmatch(readPage(t, page), -1)
	if len(rows) < 20 {
		t.Fatalf("the page names only %d functions", len(rows))
	}
	for _, row := range rows {
		source := readPage(t, root+row[1])
		for name := range strings.FieldsSeq(row[2]) {
			name = name[strings.LastIndex(name, ".")+1:]
			patterns := `(?m)^func (\(\w+ \*?\w+\) )?` + name + `[\[(]|^-- name: ` + name + ` |^CREATE (OR REPLACE )?FUNCTION pglock\.` + name + `\(`
			if !regexp.MustCompile(patterns).MatchString(source) {
				t.Errorf("there is no %s in %s", name, row[1])
			}
		}
	}
}

// The numbers of the mutations in a model are their places in the plan.
func TestModelPlanNumbersMutationsAsTheModelsDo(t *testing.T) {
	for _, file := range files() {
		numbers := map[string]string{}
		for _, found := range mutated.FindAllStringSubmatch(readPage(t, file), -1) {
			numbers[found[1]] = found[2]
		}
		n := 0
		for _, m := range mutations {
			if find(m.In).Model != file {
				continue
			}
			n++
			if numbers[m.Name] != strconv.Itoa(n) || numberOf(m) != n {
				t.Errorf("%s is %s in %s, and %d in the plan", m.Name, numbers[m.Name], file, n)
			}
		}
	}
}

func TestModelResultsThatAreIncompleteAreErrors(t *testing.T) {
	const whole = "State-vector 108 byte, depth reached 50, errors: 0\n   620380 states, stored\n  222.264\ttotal actual memory usage\n"
	if r, err := parse(whole); err != nil || r.States != 620380 || r.Memory != 222.264 || r.Violated != "" {
		t.Errorf("of a whole search: %+v, %v", r, err)
	}
	for _, text := range []string{"", "error: max search depth too small\n" + whole, "pan: reached -DMEMLIM bound\n" + whole,
		"Warning: Search not completed\n" + whole} {
		if _, err := parse(text); err == nil {
			t.Errorf("accepted:\n%s", text)
		}
	}
	if r, err := parse("pan:1: assertion violated 0 (at depth 45)\nWarning: Search not completed\n" +
		strings.Replace(whole, "errors: 0", "errors: 1", 1)); err != nil || r.Violated == "" {
		t.Errorf("of a counterexample: %+v, %v", r, err)
	}
	if _, err := parse("error: max search depth too small\n" + whole); !errors.Is(err, errDepth) {
		t.Errorf("of a search that was not deep enough: %v", err)
	}
	if got, broken := steps("using statement merging\nclient 0 asks\nspin: x\nserver: answers\nVIOLATION HeldAlone\nclient 1", ""); len(got) != 2 || broken != "HeldAlone" {
		t.Errorf("the steps are %q, and break %q", got, broken)
	}
}

// proofs are the rows of the table that says what proves each promise.
var proofs = regexp.MustCompile(`(?m)^\| [^|]+ \| [^|]* \| (session|rows|deadlock): ` + "`(\\w+)`" + ` \| ([^|]*) \|$`)

// The page names each mutation that breaks something, beside the property that it breaks, and no other.
func TestModelProvesWhatThePageOfEvidenceSays(t *testing.T) {
	text := readPage(t, root+"docs/internals/evidence.md")
	named := map[string]bool{}
	for _, row := range proofs.FindAllStringSubmatch(text, -1) {
		model, breaks := row[1], row[2]
		for _, name := range regexp.MustCompile("`([A-Z_]{3,})`").FindAllStringSubmatch(row[3], -1) {
			i := slices.IndexFunc(mutations, func(m mutation) bool { return modelOf(m)+":"+m.Name == model+":"+name[1] })
			if i < 0 || mutations[i].Breaks != breaks && !strings.Contains(row[3], "of `"+mutations[i].Breaks+"`") {
				t.Errorf("no mutation %s of %s breaks %s", name[1], model, breaks)
			}
			named[model+":"+name[1]] = true
		}
	}
	for _, m := range mutations {
		if m.Breaks != "" && !named[modelOf(m)+":"+m.Name] {
			t.Errorf("the page does not name %s of %s, which breaks %s", m.Name, modelOf(m), m.Breaks)
		}
	}
}

// modelOf returns the name of a mutation's model.
func modelOf(m mutation) string { return strings.TrimSuffix(find(m.In).Model, ".pml") }
