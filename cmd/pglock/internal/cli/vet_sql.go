package cli

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/lockvet"
)

// vetSQL prints the mistakes in the files of SQL of some packages, and returns how many there are. go vet does not read
// these files. Patterns that are no paths have none.
func vetSQL(out io.Writer, patterns []string) (found int, err error) {
	for _, pattern := range patterns {
		dir, below := strings.CutSuffix(filepath.ToSlash(pattern), "/...")
		if !filepath.IsAbs(dir) && dir != "." && !strings.HasPrefix(dir, "./") && !strings.HasPrefix(dir, "../") && dir != ".." {
			continue
		}
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && path != dir && (!below || otherCode(path)):
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".sql"):
				return nil
			}
			n, err := vetSQLFile(out, path)
			found += n
			return err
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// otherCode reports whether ./... leaves out a folder.
func otherCode(dir string) bool {
	name := filepath.Base(dir)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || slices.Contains([]string{"vendor", "testdata", "node_modules"}, name) {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil // another module
}

func vetSQLFile(out io.Writer, path string) (found int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	said := lockvet.RawInSQL(string(text))
	for _, line := range slices.Sorted(maps.Keys(said)) {
		if _, err := fmt.Fprintf(out, "%s:%d: %s\n", path, line, said[line]); err != nil {
			return 0, err
		}
	}
	return len(said), nil
}
