// Command consumercheck checks what it costs other modules to import this project. It builds a small program that
// imports only package pglock, and compares the modules that this gives it with the lists in this directory:
//
//	graph.txt     the modules in its module graph, whose versions this project can force up
//	sums.txt      the entries of its go.sum
//	compiled.txt  the modules that are compiled into it
//
// It compiles the packages with the lowest pgx that they work with, too.
//
// It also refuses imports that would let a heavy dependency into the packages that all users import. It checks the main
// module only; the lists show that nested modules stay out of it.
//
//	go run ./internal/consumercheck [-record]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	record := flag.Bool("record", false, "write the lists instead of comparing with them")
	flag.Parse()
	if err := run(*record); err != nil {
		fmt.Fprintln(os.Stderr, "consumercheck:", err)
		os.Exit(1)
	}
}

func run(record bool) error {
	lib, err := thisModule()
	if err != nil {
		return err
	}
	lists, err := consumerLists(lib)
	if err != nil {
		return err
	}
	directory := filepath.Join(lib.dir, "internal", "consumercheck")
	if record {
		return recordLists(directory, lists)
	}
	return errors.Join(compareLists(directory, lists), checkImports(lib), buildWithLowestPgx(lib))
}
