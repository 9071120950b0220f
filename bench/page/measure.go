package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// measurement measures a program.
type measurement struct {
	program, dsn string
	long         time.Duration
}

// build builds pglock, unless a program was given.
func build(ctx context.Context, program string) (path string, remove func(), err error) {
	if program != "" {
		return program, func() {}, nil
	}
	directory, err := os.MkdirTemp("", "pglock-page")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(directory) } // it is temporary
	path = filepath.Join(directory, "pglock")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/pglock")
	cmd.Dir = ".."
	if output, err := cmd.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build pglock: %w\n%s", err, output)
	}
	return path, remove, nil
}

// monitor is a running pglock monitor.
type monitor struct {
	cmd *exec.Cmd
	url string
}

var printed = regexp.MustCompile(`open (http://\S+)`)

func (m measurement) start(args ...string) (*monitor, error) {
	cmd := exec.Command(m.program, append([]string{"monitor", "--interval", "1s"}, args...)...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+m.dsn)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	started := &monitor{cmd: cmd}
	lines := bufio.NewScanner(stderr)
	if slices.Contains(args, "--http") { // only this is certain to print a line
		lines.Scan()
		found := printed.FindStringSubmatch(lines.Text())
		if found == nil {
			return nil, errors.Join(fmt.Errorf("pglock monitor printed %q instead of its page's URL", lines.Text()), started.stop())
		}
		started.url = found[1]
	}
	go func() {
		for lines.Scan() {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
	}()
	return started, nil
}

func (m *monitor) stop() error {
	err := m.cmd.Process.Signal(os.Interrupt)
	_ = m.cmd.Wait() // it was interrupted
	return err
}

// server measures the program that serves a page while no browser shows it.
func (m measurement) server(ctx context.Context) error {
	watching, err := m.start("--http", "127.0.0.1:0")
	if err != nil {
		return err
	}
	used, err := m.over(ctx, watching.cmd.Process.Pid)
	if err := errors.Join(err, watching.stop()); err != nil {
		return err
	}
	fmt.Printf(row, "pglock monitor --http, no browser", used)
	return nil
}

// over measures the processor time of a process and its children, in percent of a core.
func (m measurement) over(ctx context.Context, pid int) (percent float64, err error) {
	if err := pause(ctx, 5*time.Second); err != nil { // work that is done once at the start
		return 0, err
	}
	before, began := processorTime(pid), time.Now()
	if err := pause(ctx, m.long); err != nil {
		return 0, err
	}
	return 100 * float64(processorTime(pid)-before) / float64(time.Since(began)), nil
}

func pause(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
		return nil
	}
}

// browser measures a Chromium that shows an empty page, and the page.
func (m measurement) browser(ctx context.Context) (err error) {
	watching, err := m.start("--http", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watching.stop()) }()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.DisableGPU)
	if path := os.Getenv("PGLOCK_TEST_BROWSER"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, enableMetrics, chromedp.EmulateViewport(1280, 900)); err != nil {
		return err
	}
	chromium := chromedp.FromContext(ctx).Browser.Process().Pid
	empty, err := m.over(ctx, chromium)
	if err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(watching.url)); err != nil {
		return err
	}
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	served, began := processorTime(watching.cmd.Process.Pid), time.Now()
	before, err := chromedp.Run(ctx, metrics)
	if err != nil {
		return err
	}
	shown, err := m.over(ctx, chromium)
	if err != nil {
		return err
	}
	after, err := chromedp.Run(ctx, metrics)
	if err != nil {
		return err
	}
	lasted := time.Since(began)
	fmt.Printf(row, "pglock monitor --http, shown by one browser",
		100*float64(processorTime(watching.cmd.Process.Pid)-served)/float64(lasted))
	fmt.Printf("%-44s %5.2f %% of a core, an empty page %.2f %%\n", "all processes of Chromium", shown, empty)
	for _, name := range []string{"TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration"} {
		fmt.Printf(row, "Chromium's page: "+name, 100*(after[name]-before[name])/lasted.Seconds())
	}
	return nil
}

func enableMetrics(ctx context.Context, page *chromedp.Target) (chromedp.Void, error) {
	return cdp.Call(ctx, page, performance.Enable, performance.EnableParams{})
}

func metrics(ctx context.Context, page *chromedp.Target) (map[string]float64, error) {
	result, err := cdp.Call(ctx, page, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for _, metric := range result.Metrics {
		values[metric.Name] = metric.Value
	}
	return values, nil
}

// row is one figure of the table.
const row = "%-44s %5.2f %% of a core\n"

// processorTime is the processor time of a process and its children, from Linux's /proc.
func processorTime(pid int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	total := time.Duration(0)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // it has ended
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	for _, i := range []int{11, 12} { // utime, stime
		ticks, _ := strconv.Atoi(fields[i]) // they are numbers
		total += time.Duration(ticks) * tick
	}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
	for _, path := range children {
		text, _ := os.ReadFile(path) // it has ended
		for _, child := range strings.Fields(string(text)) {
			id, _ := strconv.Atoi(child) // they are numbers
			total += processorTime(id)
		}
	}
	return total
}
