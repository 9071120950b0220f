// Command prepare makes sure that this machine has the programs for the tests and the demonstration. As root on
// Debian and Ubuntu it installs missing ones, and says so; elsewhere, and if PGLOCK_NO_INSTALL is set, it says what
// to install and fails.
//
// With -cluster it also makes the cluster that the servers of a run of tests are copies of.
//
//	go run ./internal/prepare [-optional] [-cluster DIRECTORY] NEED…
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
)

const noInstallVariable = "PGLOCK_NO_INSTALL"

// need is something that the machine must have, and the packages that provide it.
type need struct {
	what string
	find func() error
	apt  []string
	dnf  []string
	brew []string
}

var needs = map[string]need{
	"postgres": {
		what: "PostgreSQL's server programs",
		find: func() error { _, err := pgserver.Find(); return err },
		apt:  []string{"postgresql"}, dnf: []string{"postgresql-server"}, brew: []string{"postgresql@17"},
	},
	"pgbouncer": {
		what: "PgBouncer",
		find: func() error { _, err := testenv.FindPgBouncer(); return err },
		apt:  []string{"pgbouncer"}, dnf: []string{"pgbouncer"}, brew: []string{"pgbouncer"},
	},
	"prometheus": {
		what: "Prometheus and its promtool",
		find: findPrometheus,
		apt:  []string{"prometheus"}, dnf: []string{"golang-github-prometheus"}, brew: []string{"prometheus"},
	},
	"ps": {
		what: "ps, with which the tests inspect processes",
		find: func() error { _, err := exec.LookPath("ps"); return err },
		apt:  []string{"procps"}, dnf: []string{"procps-ng"}, brew: nil, // macOS has it
	},
	"redis": {
		what: "Redis' server",
		find: func() error { _, err := redisserver.Find(); return err },
		apt:  []string{"redis-server"}, dnf: []string{"redis"}, brew: []string{"redis"},
	},
	"redis-py": {
		what: "redis-py, a client that our locks must exclude",
		find: findRedisPy,
		apt:  []string{"python3-redis"}, dnf: []string{"python3-redis"}, brew: nil, // pip3 install redis
	},
	"spin": {
		what: "Spin, which searches the models of internal/model",
		find: func() error { _, err := exec.LookPath("spin"); return err },
		apt:  []string{"spin"}, dnf: []string{"spin"}, brew: []string{"spin"},
	},
	"containers": {
		what: "Docker's engine, and mmdebstrap, which makes images",
		find: func() error {
			_, docker := exec.LookPath("docker")
			_, engine := exec.LookPath("dockerd")
			_, mmdebstrap := exec.LookPath("mmdebstrap")
			return errors.Join(docker, engine, mmdebstrap)
		},
		apt: []string{"docker.io", "mmdebstrap"},
	},
	"patroni": {
		what: "Patroni and etcd",
		find: func() error {
			_, patroni := exec.LookPath("patroni")
			_, etcd := exec.LookPath("etcd")
			return errors.Join(patroni, etcd)
		},
		apt: []string{"patroni", "python3-etcd", "etcd-server"},
	},
	"tmux": {
		what: "tmux, the terminal of the tests",
		find: func() error { _, err := exec.LookPath("tmux"); return err },
		apt:  []string{"tmux"}, dnf: []string{"tmux"}, brew: []string{"tmux"},
	},
	"shells": {
		what: "bash, zsh, fish and bash-completion, whose completions are tested",
		find: findShells,
		apt:  []string{"bash", "bash-completion", "zsh", "fish"}, dnf: []string{"bash", "bash-completion", "zsh", "fish"},
		brew: []string{"bash", "bash-completion@2", "zsh", "fish"},
	},
	"languages": {
		what: "Python, Node.js, Java and Ruby with their drivers of PostgreSQL",
		find: findLanguages,
		apt:  []string{"python3-psycopg2", "nodejs", "npm", "default-jdk-headless", "libpostgresql-jdbc-java", "ruby-pg"},
	},
	"race": {
		what: "a C compiler, which go test -race needs",
		find: findCompiler,
		apt:  []string{"gcc", "libc6-dev"}, dnf: []string{"gcc"}, brew: []string{"gcc"},
	},
}

// findRedisPy looks where the tests do.
func findRedisPy() (err error) {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if err = exec.Command(python, "-c", "import redis").Run(); err == nil {
			return nil
		}
	}
	return err
}

// findLanguages looks where the tests do. They install the driver of Node.js with npm.
func findLanguages() error {
	_, npm := exec.LookPath("npm")
	_, java := exec.LookPath("javac")
	_, jdbc := os.Stat("/usr/share/java/postgresql.jar")
	return errors.Join(npm, java, jdbc,
		exec.Command("/usr/bin/python3", "-c", "import psycopg2").Run(), exec.Command("ruby", "-e", "require 'pg'").Run())
}

func findPrometheus() error {
	_, server := exec.LookPath("prometheus")
	_, tool := exec.LookPath("promtool")
	return errors.Join(server, tool)
}

func findShells() error {
	_, bash := exec.LookPath("bash")
	_, zsh := exec.LookPath("zsh")
	_, fish := exec.LookPath("fish")
	_, completion := testenv.FindBashCompletion()
	return errors.Join(bash, zsh, fish, completion)
}

func findCompiler() error {
	output, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return err
	}
	_, err = exec.LookPath(strings.Fields(string(output))[0])
	return err
}

func main() {
	optional := flag.Bool("optional", false, "do not fail for missing programs that cannot be installed here")
	cluster := flag.String("cluster", "", "make the cluster that the servers of tests are copies of in this `directory`")
	flag.Parse()
	err := prepare(flag.Args(), *optional)
	if err == nil && *cluster != "" {
		err = makeCluster(*cluster)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

// makeCluster replaces the cluster of an earlier run, which other programs may have made.
func makeCluster(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return pgserver.MakeTemplate(context.Background(), dir)
}

func prepare(names []string, optional bool) error {
	missing, err := findMissing(names)
	switch {
	case err != nil || len(missing) == 0:
		return err
	case canInstall():
		return install(missing)
	case optional:
		return nil
	}
	return errors.New(advice(missing))
}

func findMissing(names []string) (missing []need, err error) {
	for _, name := range names {
		needed, known := needs[name]
		if !known {
			return nil, fmt.Errorf("there is no need called %q", name)
		}
		if needed.find() != nil {
			missing = append(missing, needed)
		}
	}
	return missing, nil
}

func canInstall() bool {
	_, err := exec.LookPath("apt-get")
	return err == nil && os.Geteuid() == 0 && os.Getenv(noInstallVariable) == ""
}

// advice says which packages to install with each of the usual tools.
func advice(missing []need) string {
	var text strings.Builder
	for _, needed := range missing {
		fmt.Fprintf(&text, "this machine lacks %s\n", needed.what)
	}
	fmt.Fprintf(&text, "install what is missing:\n"+
		"  Debian, Ubuntu:  apt-get install --no-install-recommends %s\n"+
		"  Fedora, RHEL:    dnf install %s\n"+
		"  macOS:           brew install %s",
		packages(missing, func(n need) []string { return n.apt }),
		packages(missing, func(n need) []string { return n.dnf }),
		packages(missing, func(n need) []string { return n.brew }))
	if os.Getenv(noInstallVariable) != "" {
		fmt.Fprintf(&text, "\n(%s is set, so nothing was installed)", noInstallVariable)
	}
	return text.String()
}

func packages(missing []need, of func(need) []string) string {
	var all []string
	for _, needed := range missing {
		all = append(all, of(needed)...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}
