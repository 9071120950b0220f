package deployment

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const packaging = "../../../cmd/pglock/packaging/"

// docker runs a command of Docker, and returns what it prints.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	output, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %v: %v\n%s", args, err, output)
	}
	return strings.TrimSpace(string(output))
}

// image builds the image, and removes it with the test.
func image(t *testing.T) string {
	t.Helper()
	if err := exec.Command("docker", "version").Run(); err != nil {
		t.Skip("Docker's engine does not run, which builds the image and runs it")
	}
	folder := t.TempDir()
	if output, err := exec.Command(packaging+"image.sh", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	name := "pglock-test:" + strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	docker(t, "build", "--quiet", "--tag", name, "--file", packaging+"Dockerfile", folder)
	t.Cleanup(func() { docker(t, "rmi", "--force", name) })
	return name
}

func TestProgramImageRunsWithoutAnythingElseInIt(t *testing.T) {
	name := image(t)
	db := testenv.Database(t)
	_, err := db.Connect(t).Exec(t.Context(), "SELECT pg_advisory_lock(42)")
	must.Succeed(t, err)
	// The container shares the network of the machine, so that it reaches the server on loopback.
	run := []string{"run", "--network", "host", "--read-only", "--cap-drop", "ALL", "--env", "DATABASE_URL=" + db.ConnString()}
	if text := docker(t, append(run, "--rm", name, "monitor", "--once")...); !strings.Contains(text, "@42") {
		t.Errorf("pglock monitor says\n%s", text)
	}
	// There is no program to run under a lock, but the time zone is there.
	output, err := exec.Command("docker", append(run, "--rm", name, "run", "--tick", "0 4 * * *", "--time-zone", "Europe/Berlin", "k", "--", "true")...).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "true") || strings.Contains(string(output), "zone") {
		t.Errorf("pglock run ends with %v\n%s", err, output)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	address := listener.Addr().String()
	must.Succeed(t, listener.Close())
	container := docker(t, append(run, "--detach", name, "serve", "--listen", address)...)
	t.Cleanup(func() { docker(t, "rm", "--force", container) })
	var metrics string
	testenv.WaitUntil(t, "metrics of the container", func() bool {
		metrics = fetch("http://" + address + "/metrics")
		return metrics != ""
	})
	if !strings.Contains(metrics, "pglock_up 1\n") || !strings.Contains(metrics, fmt.Sprintf("pglock_holders{database=%q} 1\n", db.Name())) {
		t.Errorf("the metrics are\n%s", metrics)
	}
	docker(t, "stop", container)
	if code := docker(t, "inspect", "--format", "{{.State.ExitCode}} {{.Config.User}}", container); code != "0 65532:65532" {
		t.Errorf("it ended with %s\n%s", code, docker(t, "logs", container))
	}
}

// fetch returns a page, or nothing if there is none.
func fetch(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if err != nil {
		return ""
	}
	return string(text)
}
