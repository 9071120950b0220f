package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// result is what a search has found.
type result struct {
	States    int
	Memory    float64 // in MB, of the whole search
	Processor time.Duration
	Violated  string   // the property that a counterexample breaks; "" if all states were seen and none does
	Steps     []string // of the counterexample
	Again     int      // how many of its last steps are repeated for ever, if it shows what never happens
}

// search says how the states are searched.
type search int

const (
	whole    search = iota // depth first, until all states were seen
	shortest               // breadth first, until a counterexample was found, which is then a shortest one
	forever                // for what never happens although each process that can always act does act
)

var flags = map[search][]string{
	whole:    {"-DSAFETY"},
	shortest: {"-DSAFETY", "-DBFS"},
	forever:  {"-DNFAIR=5"},
}

// memoryLimit is how much memory a search may use. When it would use more, pan stops, and that is an error.
const memoryLimit = 8 * 1024 // MB

// build makes a program that searches the states of a configuration, in dir. Partial order reduction is off: nearly every
// action reads what others write, so it would save nothing, and so its conditions need no argument.
func build(ctx context.Context, dir string, c configuration, how search) error {
	text, err := models.ReadFile(c.Model)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, c.Model), text, 0o644); err != nil {
		return err
	}
	args := make([]string, 0, len(c.Defines)+2)
	for _, d := range c.Defines {
		args = append(args, "-D"+d)
	}
	if _, err := run(ctx, dir, nil, "spin", append(args, "-a", c.Model)...); err != nil {
		return err
	}
	gcc := append([]string{"-O1", "-w", "-DNOREDUCE", fmt.Sprintf("-DMEMLIM=%d", memoryLimit)}, flags[how]...)
	_, err = run(ctx, dir, nil, "gcc", append(gcc, "-o", "pan", "pan.c")...)
	return err
}

// look searches with a program that was built, with one mutation or, with 0, without.
func look(ctx context.Context, dir string, mutation int) (result, error) {
	env := []string{fmt.Sprintf("PGLOCK_MUTATION=%d", mutation)}
	out, err := run(ctx, dir, env, "./pan", "-E", "-m1000000") // no action may be possible at last: -E
	if err != nil {
		return result{}, err
	}
	r, err := parse(out.text)
	r.Processor = out.processor
	if err != nil || r.Violated == "" {
		return r, err
	}
	trail, err := run(ctx, dir, env, "./pan", "-r")
	if err != nil {
		return r, err
	}
	r.Steps, r.Violated = steps(trail.text, r.Violated)
	return r, nil
}

// lookForever searches with a program that was built for it whether a property of what happens at last holds, under weak
// fairness. With a mutation it looks for a short counterexample, at a few steps first and then at more.
func lookForever(ctx context.Context, dir, property string, mutation int) (result, error) {
	env := []string{fmt.Sprintf("PGLOCK_MUTATION=%d", mutation)}
	depth := 1_000_000
	if mutation != 0 {
		depth = 60
	}
	for {
		out, err := run(ctx, dir, env, "./pan", "-a", "-f", "-N", property, fmt.Sprintf("-m%d", depth))
		if err != nil {
			return result{}, err
		}
		r, err := parse(out.text)
		r.Processor = out.processor
		if errors.Is(err, errDepth) && mutation != 0 {
			depth += depth / 2
			continue
		}
		if err != nil || r.Violated == "" {
			return r, err
		}
		trail, err := run(ctx, dir, env, "./pan", "-r", "-a", "-f", "-N", property)
		if err != nil {
			return r, err
		}
		before, cycle, _ := strings.Cut(trail.text, "OF CYCLE>")
		r.Steps, _ = steps(before, "")
		again, _ := steps(cycle, "")
		r.Steps, r.Again, r.Violated = append(r.Steps, again...), len(again), property
		return r, nil
	}
}

// errDepth says that the search did not go as deep as there are states.
var errDepth = errors.New("max search depth too small")

var (
	statesLine = regexp.MustCompile(`(?m)^\s*(\S+) states, stored`)
	memoryLine = regexp.MustCompile(`(?m)^\s*(\S+)\s+total actual memory usage`)
	errorsLine = regexp.MustCompile(`errors: (\d+)`)
)

// parse reads what pan prints. A search that was not finished is an error.
func parse(out string) (result, error) {
	found := errorsLine.FindStringSubmatch(out)
	if found == nil || found[1] == "0" {
		if strings.Contains(out, errDepth.Error()) {
			return result{}, errDepth
		}
		for _, incomplete := range []string{"Search not completed", "out of memory", "MEMLIM bound", "error:"} {
			if strings.Contains(out, incomplete) {
				return result{}, fmt.Errorf("the search was not finished (%s):\n%s", incomplete, out)
			}
		}
	}
	states, memory := statesLine.FindStringSubmatch(out), memoryLine.FindStringSubmatch(out)
	if found == nil || states == nil {
		return result{}, fmt.Errorf("pan has printed something else:\n%s", out)
	}
	var r result
	n, err := strconv.ParseFloat(states[1], 64) // 1e+06 if there are many
	if err != nil {
		return r, err
	}
	r.States = int(n)
	if memory != nil {
		r.Memory, _ = strconv.ParseFloat(memory[1], 64)
	}
	if found[1] != "0" {
		r.Violated = "unknown" // until the steps are read
	}
	return r, nil
}

// steps returns the actions of a counterexample, and the property that it breaks.
func steps(trail, violated string) ([]string, string) {
	var actions []string
	for lines := bufio.NewScanner(strings.NewReader(trail)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "VIOLATION "); ok {
			return actions, name
		}
		for _, begin := range []string{"client ", "server: ", "process ", "a ", "the "} {
			if strings.HasPrefix(line, begin) {
				actions = append(actions, line)
				break
			}
		}
	}
	return actions, violated
}

// output is what a program has printed, and the processor time that it took.
type output struct {
	text      string
	processor time.Duration
}

func run(ctx context.Context, dir string, env []string, program string, args ...string) (output, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if program == "./pan" {
		cmd.Path = filepath.Join(dir, "pan")
	}
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok && program == "./pan" && ctx.Err() == nil {
		err = nil // it exits so when it has found something
	}
	if err != nil {
		return output{}, fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, text.String())
	}
	return output{text.String(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}
