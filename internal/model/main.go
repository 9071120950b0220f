// Command model searches the models of locks for what must not happen, and prints what it has seen. docs/internals/model.md
// explains the models. It needs spin and gcc.
//
//	go run ./internal/model [-big=false] [-only NAME] [-steps]
//
// It searches all states of each configuration: for what must not happen, and for what must happen at last. Then it
// leaves out the steps that the argument needs, one by one, and looks for a counterexample to each: a model that cannot
// fail shows nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
)

func main() {
	big := flag.Bool("big", true, "search the big configurations too")
	only := flag.String("only", "", "search only the configurations and mutations whose names match this regular expression")
	steps := flag.Bool("steps", false, "print each counterexample, action by action")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	names, err := regexp.Compile(*only)
	if err == nil {
		err = printAll(ctx, part{*big, *steps, names})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

// part says what is searched.
type part struct {
	big, steps bool
	names      *regexp.Regexp
}

func (p part) has(c configuration) bool { return (p.big || !c.Big) && p.names.MatchString(c.Name) }

func printAll(ctx context.Context, p part) error {
	if err := printConfigurations(ctx, p); err != nil {
		return err
	}
	fmt.Println()
	if err := printLive(ctx, p); err != nil {
		return err
	}
	fmt.Println()
	return printMutations(ctx, p)
}

func printConfigurations(ctx context.Context, p part) error {
	fmt.Println("| model | configuration | states | memory | processor time | violations |")
	fmt.Println("| --- | --- | --: | --: | --: | --: |")
	for _, c := range configurations {
		if c.live() || !p.has(c) {
			continue
		}
		r, err := exhaust(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		fmt.Printf("| %s | %s | %d | %.0f MB | %.0f s | 0 |\n", modelName(c.Model), c.Name, r.States, r.Memory, r.Processor.Seconds())
	}
	return nil
}

func printLive(ctx context.Context, p part) error {
	fmt.Println("| model | configuration | property | states | memory | processor time | violations |")
	fmt.Println("| --- | --- | --- | --: | --: | --: | --: |")
	return eachProperty(ctx, p.has, func(c configuration, property string, r result) {
		fmt.Printf("| %s | %s | %s | %d | %.0f MB | %.0f s | 0 |\n", modelName(c.Model), c.Name, property, r.States, r.Memory, r.Processor.Seconds())
	})
}

// eachProperty sees all states for each property of what happens at last. A violation is an error.
func eachProperty(ctx context.Context, wanted func(configuration) bool, held func(configuration, string, result)) error {
	for _, c := range configurations {
		if !c.live() || !wanted(c) {
			continue
		}
		err := withProgram(ctx, c, forever, func(dir string) error {
			for _, property := range c.Live {
				r, err := lookForever(ctx, dir, property, 0)
				if err == nil && r.Violated != "" {
					err = fmt.Errorf("%s is violated, the last %d steps are repeated:\n%s", r.Violated, r.Again, strings.Join(r.Steps, "\n"))
				}
				if err != nil {
					return fmt.Errorf("%s: %w", c.Name, err)
				}
				held(c, property, r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withProgram makes a program that searches a configuration, and removes it afterwards.
func withProgram(ctx context.Context, c configuration, how search, use func(dir string) error) error {
	dir, err := os.MkdirTemp("", "pglock-model-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(ctx, dir, c, how); err != nil {
		return err
	}
	return use(dir)
}

func modelName(file string) string { return strings.TrimSuffix(file, ".pml") }

// exhaust sees all states of a configuration. A violation is an error.
func exhaust(ctx context.Context, c configuration) (r result, err error) {
	err = withProgram(ctx, c, whole, func(dir string) error {
		r, err = look(ctx, dir, 0)
		if err == nil && r.Violated != "" {
			err = fmt.Errorf("%s is violated:\n%s", r.Violated, strings.Join(r.Steps, "\n"))
		}
		return err
	})
	return r, err
}

func printMutations(ctx context.Context, p part) error {
	fmt.Println("| model | mutation | without | in | breaks | steps |")
	fmt.Println("| --- | --- | --- | --- | --- | --: |")
	wanted := func(m mutation) bool { return p.names.MatchString(m.Name) }
	return eachMutation(ctx, wanted, func(m mutation, c configuration, r result) error {
		if r.Violated != m.Breaks {
			return fmt.Errorf("%s: broken is %q, and %q was expected:\n%s", m.Name, r.Violated, m.Breaks, strings.Join(r.Steps, "\n"))
		}
		broken, steps := m.Breaks, fmt.Sprint(len(r.Steps))
		switch {
		case broken == "":
			broken, steps = "nothing", ""
		case c.live():
			steps = fmt.Sprintf("%d, then %d again and again", len(r.Steps)-r.Again, r.Again)
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s |\n", modelName(c.Model), m.Name, m.Without, c.Name, broken, steps)
		for i, step := range r.Steps {
			if p.steps {
				fmt.Printf("%2d  %s\n", i+1, step)
			}
		}
		return nil
	})
}

// eachMutation looks for the shortest counterexample to each mutation that is wanted, or for a short one if it shows what
// never happens. Those of one configuration share a program.
func eachMutation(ctx context.Context, wanted func(mutation) bool, found func(mutation, configuration, result) error) error {
	programs := map[string]string{}
	defer func() {
		for _, dir := range programs {
			_ = os.RemoveAll(dir)
		}
	}()
	for _, m := range mutations {
		if !wanted(m) {
			continue
		}
		c := find(m.In)
		if programs[c.Name] == "" {
			dir, err := os.MkdirTemp("", "pglock-model-")
			if err != nil {
				return err
			}
			programs[c.Name] = dir
			if err := build(ctx, dir, c, c.breaking()); err != nil {
				return err
			}
		}
		r, err := lookWithout(ctx, programs[c.Name], m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		if err := found(m, c, r); err != nil {
			return err
		}
	}
	return nil
}

// lookWithout looks for a counterexample to a mutation.
func lookWithout(ctx context.Context, dir string, m mutation) (result, error) {
	if find(m.In).live() {
		return lookForever(ctx, dir, m.Breaks, numberOf(m))
	}
	return look(ctx, dir, numberOf(m))
}

func find(name string) configuration {
	for _, c := range configurations {
		if c.Name == name {
			return c
		}
	}
	panic("there is no configuration " + name)
}

// numberOf returns the number by which the model knows a mutation.
func numberOf(m mutation) (n int) {
	for _, other := range mutations {
		if find(other.In).Model == find(m.In).Model {
			n++
		}
		if other.Name == m.Name && other.In == m.In {
			return n
		}
	}
	panic("there is no mutation " + m.Name)
}
