package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// recordServers begins a recording of each server, which has a file in the folder that --record names. The returned
// function closes them.
func (m *watch) recordServers(f *serverGroup) (stop func() error, err error) {
	stop = func() error {
		var errs []error
		for _, member := range f.members {
			errs = append(errs, member.recorder.close())
		}
		return errors.Join(errs...)
	}
	folder := m.record.path
	const owner = 0o700
	if folder != "" {
		if err := os.MkdirAll(folder, owner); err != nil {
			return stop, &exit{codeOther, fmt.Errorf("--record takes a folder for several servers: %w", err)}
		}
	}
	for _, member := range f.members {
		path := ""
		if folder != "" {
			path = filepath.Join(folder, member.name+".rec")
			say(os.Stderr, "recording %s in %s", member.db.target, path)
		}
		if member.recorder, err = m.beginRecording(member.db.target, path, maxPast/int64(len(f.members))); err != nil {
			return stop, errors.Join(err, stop())
		}
	}
	return stop, nil
}

// unsafeInName matches what the name of a file and a part of a URL are not made of.
var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// memberName returns the name of a server for its file and its page. Those of two labels that differ in other characters
// only would be the same, so the later one has a number. A name does not begin with a dot: such files are hidden, and some
// such paths lead elsewhere.
func memberName(label string, taken []string) string {
	name := unsafeInName.ReplaceAllString(label, "_")
	if strings.HasPrefix(name, ".") {
		name = "_" + name
	}
	one := name
	for n := 2; slices.Contains(taken, one); n++ {
		one = fmt.Sprintf("%s-%d", name, n)
	}
	return one
}
