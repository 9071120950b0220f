// Command model searches the models of locks for what must not happen, and prints what it has seen. docs/model.md
// explains the models. It needs spin and gcc.
//
//	go run ./internal/model [-big=false]
//
// It searches all states of each configuration. Then it leaves out the steps that the argument needs, one by one, and
// looks for a counterexample to each: a model that cannot fail shows nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

func main() {
	big := flag.Bool("big", true, "search the big configurations too")
	show := flag.String("show", "", "print the counterexample of this mutation only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *show != "" {
		err = showSteps(ctx, *show)
	} else {
		err = printAll(ctx, *big)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

func printAll(ctx context.Context, big bool) error {
	if err := printConfigurations(ctx, big); err != nil {
		return err
	}
	fmt.Println()
	return printMutations(ctx)
}

func printConfigurations(ctx context.Context, big bool) error {
	fmt.Println("| model | configuration | states | memory | processor time | violations |")
	fmt.Println("| --- | --- | --: | --: | --: | --: |")
	for _, c := range configurations {
		if c.Big && !big {
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

func modelName(file string) string { return strings.TrimSuffix(file, ".pml") }

// exhaust sees all states of a configuration. A violation is an error.
func exhaust(ctx context.Context, c configuration) (result, error) {
	dir, err := os.MkdirTemp("", "pglock-model-")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(ctx, dir, c, whole); err != nil {
		return result{}, err
	}
	r, err := look(ctx, dir, 0)
	if err == nil && r.Violated != "" {
		err = fmt.Errorf("%s is violated:\n%s", r.Violated, strings.Join(r.Steps, "\n"))
	}
	return r, err
}

func printMutations(ctx context.Context) error {
	fmt.Println("| model | mutation | without | in | breaks | steps |")
	fmt.Println("| --- | --- | --- | --- | --- | --: |")
	every := func(mutation) bool { return true }
	return eachMutation(ctx, every, func(m mutation, c configuration, r result) error {
		if r.Violated != m.Breaks {
			return fmt.Errorf("%s: broken is %q, and %q was expected:\n%s", m.Name, r.Violated, m.Breaks, strings.Join(r.Steps, "\n"))
		}
		broken, steps := m.Breaks, fmt.Sprint(len(r.Steps))
		if broken == "" {
			broken, steps = "nothing", ""
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s |\n", modelName(c.Model), m.Name, m.Without, c.Name, broken, steps)
		return nil
	})
}

// eachMutation looks for the shortest counterexample to each mutation that is wanted. Those of one configuration share a program.
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
			if err := build(ctx, dir, c, shortest); err != nil {
				return err
			}
		}
		r, err := look(ctx, programs[c.Name], numberOf(m))
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		if err := found(m, c, r); err != nil {
			return err
		}
	}
	return nil
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

func showSteps(ctx context.Context, name string) error {
	for _, m := range mutations {
		if m.Name != name {
			continue
		}
		c := find(m.In)
		dir, err := os.MkdirTemp("", "pglock-model-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if err := build(ctx, dir, c, shortest); err != nil {
			return err
		}
		r, err := look(ctx, dir, numberOf(m))
		if err != nil {
			return err
		}
		for i, step := range r.Steps {
			fmt.Printf("%2d  %s\n", i+1, step)
		}
		fmt.Println("broken:", r.Violated)
		return nil
	}
	return fmt.Errorf("there is no mutation %s", name)
}
