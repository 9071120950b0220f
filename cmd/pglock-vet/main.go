// Command pglock-vet finds mistakes with locks in Go programs. The go command runs it:
//
//	go vet -vettool=$(which pglock-vet) ./...
//
// The command pglock vet does the same. Package lockvet describes what it finds.
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/pglock-toolkit/pglock/cmd/pglock-vet/lockvet"
)

func main() { unitchecker.Main(lockvet.Analyzers()...) }
