package cli_test

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

const packaging = "../../packaging/"

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Succeed(t, err)
	return string(text)
}

// units returns the units of the packages, and those in the documentation.
func units(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	paths, err := filepath.Glob(packaging + "systemd/*.service")
	must.Succeed(t, err)
	for _, path := range paths {
		all[filepath.Base(path)] = readFile(t, path)
	}
	page := readFile(t, "../../../../docs/operating.md")
	for _, block := range regexp.MustCompile("(?ms)^```ini\n# /etc/systemd/system/(\\S+)\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		all[block[1]] = block[2]
	}
	if len(all) < 4 {
		t.Fatalf("there are only %d units", len(all))
	}
	return all
}

func TestPackagingSystemdUnderstandsTheUnits(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze to verify the units with (Debian's package systemd)")
	}
	directory := t.TempDir()
	self, err := os.Executable()
	must.Succeed(t, err)
	var paths []string
	for name, text := range units(t) {
		// verify wants the program to be there, and its manual.
		text = strings.ReplaceAll(text, "/usr/bin/pglock", self)
		text = regexp.MustCompile(`(?m)^Documentation=.*\n`).ReplaceAllString(text, "")
		text = strings.ReplaceAll(text, "/opt/report/report.sh", self)
		path := filepath.Join(directory, name)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		paths = append(paths, path)
	}
	output, err := exec.Command("systemd-analyze", append([]string{"verify"}, paths...)...).CombinedOutput()
	if err != nil || len(output) > 0 {
		t.Errorf("%v\n%s", err, output)
	}
	for _, path := range paths {
		if !strings.Contains(path, "pglock-") {
			continue
		}
		output, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", path).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	}
}

// The services run what their units say, with the options of the examples.
func TestPackagingTheServicesStartAndStop(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	for unit, options := range map[string]string{"serve": "--listen 127.0.0.1:0 --interval 5s", "watch": "--on-event true"} {
		directory := t.TempDir()
		text := readFile(t, packaging+"systemd/pglock-"+unit+".service")
		start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/pglock (.*) \$PGLOCK_\w+_OPTIONS$`).FindStringSubmatch(text)
		if start == nil {
			t.Fatalf("%s starts nothing", unit)
		}
		args := append(strings.Fields(strings.ReplaceAll(start[1], "/var/lib/pglock", directory)), strings.Fields(options)...)
		p := on(t, db, args...).start()
		p.waitForOutput(map[string]string{"serve": "/metrics", "watch": "recording "}[unit])
		p.signal(syscall.SIGTERM)
		wantCode(t, p.end(), 0)
	}
}

// The containers of the manifests are started with arguments that pglock accepts.
func TestPackagingTheManifestsHaveArgumentsThatWork(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	for _, name := range []string{"serve", "cronjob"} {
		var args []string
		for _, list := range regexp.MustCompile(`(?m)^ *(?:command|args): (\[.*\])$`).FindAllStringSubmatch(readFile(t, packaging+"kubernetes/"+name+".yaml"), -1) {
			var some []string
			must.Succeed(t, json.Unmarshal([]byte(list[1]), &some))
			args = append(args, some...)
		}
		if name == "serve" {
			args[slices.Index(args, "0.0.0.0:19187")] = "127.0.0.1:0"
			p := on(t, db, args...).start()
			p.waitForOutput("/metrics")
			p.signal(syscall.SIGTERM)
			wantCode(t, p.end(), 0)
			continue
		}
		args = append(args[1:len(args)-1], "echo", "ran") // in place of the program of the image
		r := on(t, db, args...).run()
		wantCode(t, r, 0)
		wantText(t, r.stdout, "ran\n")
		again := on(t, db, args...).run()
		wantCode(t, again, 0)
		wantText(t, again.stderr, "has been run")
		if again.stdout != "" {
			t.Errorf("it ran again: %s", again.stdout)
		}
	}
}

// The notices have the licence of every module that the linker put into the program, on other systems too. Each archive and
// package of a release has them.
func TestProgramPackagingNotices(t *testing.T) {
	dir := t.TempDir()
	program, file := filepath.Join(dir, "pglock"), filepath.Join(dir, "notices")
	for _, cmd := range []*exec.Cmd{exec.Command("go", "build", "-buildvcs=false", "-o", program, "../.."),
		exec.Command(packaging+"notices.sh", file, "linux windows", "../..")} {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	info, err := buildinfo.ReadFile(program)
	must.Succeed(t, err)
	want := []string{"Go, its standard library and runtime", "github.com/inconshreveable/mousetrap v1.1.0"}
	for _, module := range info.Deps {
		if !strings.HasPrefix(module.Path, "github.com/pglock-toolkit/pglock") { // ours, whose licence is in the file LICENSE
			want = append(want, module.Path+" "+module.Version)
		}
	}
	for _, name := range want {
		if _, after, found := strings.Cut(readFile(t, file), "\n"+name+"\n===="); !found || len(after) < 500 {
			t.Errorf("the notices have no licence of %s", name)
		}
	}
	release := readFile(t, "../../../../.goreleaser.yaml")
	if strings.Count(release, "- src: .tmp/package/THIRD_PARTY_NOTICES\n") != 2 || !strings.Contains(release, "- make notices\n") {
		t.Error("a release has no notices")
	}
}
