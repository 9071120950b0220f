package sqlcplugin

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Bounds of the search for the project: the depth, and the number of directories.
const (
	deepest  = 6
	mostDirs = 5000
)

// projectDir finds the directory of sqlc's configuration, to which the paths of a request are relative. A request does
// not contain it. It is the working directory or, after sqlc generate -f elsewhere/sqlc.yaml, the one below it that has
// a configuration with the plugin and all queries of the request; ok is false if there is none, or several.
func projectDir(dir fs.FS, r request) (found string, ok bool) {
	if dir == nil {
		return "", false
	}
	if hasQueries(dir, r) {
		return ".", true
	}
	dirs := 0
	var matches []string
	err := fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && entry != nil && entry.IsDir():
			return fs.SkipDir // it cannot be read
		case err != nil || !entry.IsDir() || name == ".":
			return nil
		case ignored(path.Base(name)) || strings.Count(name, "/") >= deepest:
			return fs.SkipDir
		}
		if dirs++; dirs > mostDirs {
			return fs.SkipAll
		}
		if sub, err := fs.Sub(dir, name); err == nil && usesPlugin(sub, r) && hasQueries(sub, r) {
			matches = append(matches, name)
		}
		return nil
	})
	if err != nil || len(matches) != 1 {
		return "", false
	}
	return matches[0], true
}

func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains([]string{"node_modules", "vendor"}, name)
}

// usesPlugin reports whether sqlc's configuration is in dir and names the plugin of the request.
func usesPlugin(dir fs.FS, r request) bool {
	return slices.ContainsFunc(configs(dir), func(config string) bool { return uses(config, r.Settings.Codegen.Plugin) })
}

// hasQueries reports whether the files of the request are in dir, with all its queries.
func hasQueries(dir fs.FS, r request) bool {
	sources := newSources(dir, "", r.Settings.Queries)
	return len(r.Queries) > 0 && !slices.ContainsFunc(r.Queries, func(q query) bool {
		return sources.query(q.Filename, q.Name).Line == 0
	})
}
