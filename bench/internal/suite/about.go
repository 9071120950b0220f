package suite

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// progress prints what is going on.
func progress(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "· "+format+"\n", args...) // only for information
}

// about returns the lab's description of itself, and the conditions of the run.
func (f Flags) about(lab Lab) (title string, all map[string]string) {
	title, all = lab.About()
	for name, value := range map[string]string{
		"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
		"cores": fmt.Sprint(runtime.NumCPU()), "gomaxprocs": fmt.Sprint(runtime.GOMAXPROCS(0)), "load": loadAverage(),
		"rounds": fmt.Sprint(f.Plan.Rounds), "slice": f.Plan.Slice.String(),
	} {
		all[name] = value
	}
	return title, all
}

// loadAverage returns how busy the machine has been: other load disturbs the measurement.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// ModuleVersion returns the version of a module that is compared.
func ModuleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return module.Version
			}
		}
	}
	return "unknown"
}

func printHeader(title string, about map[string]string, peer string) {
	fmt.Println(title)
	fmt.Printf("%s cores, GOMAXPROCS %s, load before the run %s; %s rounds of %s, medians and quartiles\n\n",
		about["cores"], about["gomaxprocs"], about["load"], about["rounds"], about["slice"])
	fmt.Println(report.Head(peer))
}
