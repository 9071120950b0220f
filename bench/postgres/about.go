package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

// about says under which conditions a run took place.
type about struct {
	postgres, pgx, goose, load string
	plan                       contest.Plan
}

func describe(server *pgserver.Server, plan contest.Plan) about {
	return about{
		postgres: server.Binaries().Version,
		pgx:      moduleVersion("github.com/jackc/pgx/v5"),
		goose:    moduleVersion("github.com/pressly/goose/v3"),
		load:     loadAverage(),
		plan:     plan,
	}
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return module.Version
			}
		}
	}
	return "unknown"
}

// loadAverage is how busy the machine has been: what else ran on it disturbs.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func (a about) properties() map[string]string {
	return map[string]string{
		"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "postgres": a.postgres,
		"pgx": a.pgx, "goose": a.goose,
		"cores": fmt.Sprint(runtime.NumCPU()), "gomaxprocs": fmt.Sprint(runtime.GOMAXPROCS(0)),
		"load": a.load, "rounds": fmt.Sprint(a.plan.Rounds), "slice": a.plan.Slice.String(),
	}
}

func printHeader(a about) {
	fmt.Printf("PostgreSQL %s, %s %s/%s, pgx %s, goose %s\n",
		a.postgres, runtime.Version(), runtime.GOOS, runtime.GOARCH, a.pgx, a.goose)
	fmt.Printf("%d cores, GOMAXPROCS %d, load before the run %s; %d rounds of %v, medians and quartiles\n\n",
		runtime.NumCPU(), runtime.GOMAXPROCS(0), a.load, a.plan.Rounds, a.plan.Slice)
	fmt.Println(report.Head("plain pgx"))
}
