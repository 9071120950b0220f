package docs

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
	qualified = regexp.MustCompile(`\b([A-Za-z]\w*)\.([A-Z]\w*)`)
	camelCase = regexp.MustCompile(`(?:^|[^\w./-])([A-Z][a-z]+(?:[A-Z]\w*)?)(?:\(|$|\.)`)
	docLink   = regexp.MustCompile(`\[\*?(?:\w+\.)?(\w+)\.([A-Z]\w*)\]`)
	testName  = regexp.MustCompile(`\bTest[A-Z]\w*`)
)

// Names in the pages that are not in docs/api.txt: of other libraries, some of which have packages named as ours, of
// keys on a keyboard, and of the properties of internal/model.
var foreignNames = words(`
	PrepareStmt MaxConns Enter Prev CopyFrom Rollback
	MaxHoldEndsTheLock
	HeldAlone InOrder NothingAfterError HolderKnown WaitEnds LockFreed TransactionEnds Deadlocked OneVictim
	WithLocker WithSessionLocker WithLocation WithInstance
	WithExpiry LockContext TryLockContext WithTries WithRetryDelay UnlockContext ExtendContext Until ErrTaken
	ErrLockAlreadyExpired RetryStrategy ErrNotObtained ErrLockNotHeld WithContext TryWithContext KeyValidity True Raise
	None LockNotOwnedError AcquireAsync TryAcquireAsync HandleLostToken AcquireReadLockAsync`)

// TestProgramDocsNamesExist looks up the functions, types and tests that the pages name: every `pkg.Name` of our packages, every
// `Type.Method`, every other `CamelCase`, and every `TestSomething`.
func TestProgramDocsNamesExist(t *testing.T) {
	api := read(t, filepath.Join(root, "docs", "api.txt"))
	exported := words(regexp.MustCompile(`\W+`).ReplaceAllString(api, " "))
	tests := testNames(t)
	for _, page := range pages(t) {
		text := fenced.ReplaceAllString(read(t, page), "")
		for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
			for _, name := range testName.FindAllString(span[1], -1) {
				if !tests[name] {
					t.Errorf("%s: there is no test %s", page, name)
				}
			}
			for _, match := range qualified.FindAllStringSubmatch(span[1], -1) {
				if !foreignNames[match[2]] && !hasName(api, match[1], match[2]) {
					t.Errorf("%s: there is no %s", page, match[0])
				}
			}
			for _, match := range camelCase.FindAllStringSubmatch(span[1], -1) {
				if name := match[1]; !exported[name] && !foreignNames[name] && !strings.HasPrefix(name, "Test") {
					t.Errorf("%s: there is no %s in docs/api.txt (`%s`)", page, name, span[1])
				}
			}
		}
	}
}

// TestDocsEachPackageHasItsImportPath looks up the packages of docs/api.txt in the table of import paths.
func TestDocsEachPackageHasItsImportPath(t *testing.T) {
	_, table, _ := strings.Cut(read(t, filepath.Join(root, "docs", "README.md")), "## Import paths")
	for line := range strings.Lines(read(t, filepath.Join(root, "docs", "api.txt"))) {
		if name, _, _ := strings.Cut(line, ":"); !strings.Contains(table, "`"+name+"`") {
			t.Fatalf("docs/README.md does not have the import path of %s", name)
		}
	}
}

// TestDocsLinksOfDocCommentsLeadToNames looks up the methods, fields and names of packages to which public packages link.
func TestDocsLinksOfDocCommentsLeadToNames(t *testing.T) {
	api := read(t, filepath.Join(root, "docs", "api.txt"))
	out, err := exec.Command("git", "-C", root, "grep", "-E", `^\s*// .*\[`, "--", "pglock/*.go", "monitor/*.go", "migrations/*.go",
		"redisfallback/*.go", ":!*_test.go", ":!*/internal/*").Output()
	if err != nil {
		t.Skipf("the comments are found by git: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		for _, link := range docLink.FindAllStringSubmatch(line, -1) {
			if !hasName(api, link[1], link[2]) {
				t.Errorf("there is no %s: %s", link[0], line)
			}
		}
	}
}

// hasName reports whether name is in the package, or a method or field of the type, that owner names. It is true for
// owners that are not ours.
func hasName(api, owner, name string) bool {
	lines := regexp.MustCompile(`(?m)^(?:\S*/)?`+owner+`: .*$|^\S+: (?:type |field |func \(\*?)`+owner+`\b.*$`).FindAllString(api, -1)
	if len(lines) == 0 {
		return true
	}
	return regexp.MustCompile(`\b` + name + `\b`).MatchString(strings.Join(lines, "\n"))
}

func testNames(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "grep", "-hoE", `^func Test\w+`, "--", "*_test.go").Output()
	if err != nil {
		t.Skipf("the tests are listed by git: %v", err)
	}
	return words(strings.ReplaceAll(string(out), "func ", ""))
}

func words(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}
