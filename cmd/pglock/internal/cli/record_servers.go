package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// unsafeInName matches what the name of a file is not made of.
var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// recordServers begins a recording of each server, a file in the folder that --record names. The returned
// function closes them.
func (m *watch) recordServers(f *serverGroup) (stop func() error, err error) {
	stop = func() error {
		var errs []error
		for _, member := range f.members {
			errs = append(errs, member.recorder.close())
		}
		return errors.Join(errs...)
	}
	if m.record.path == "" {
		return stop, nil
	}
	const owner = 0o700
	if err := os.MkdirAll(m.record.path, owner); err != nil {
		return stop, &exit{codeOther, fmt.Errorf("--record takes a folder for several servers: %w", err)}
	}
	var taken []string
	for _, member := range f.members {
		one := m.record
		one.path = filepath.Join(m.record.path, recordingName(member.db.label, taken))
		taken = append(taken, filepath.Base(one.path))
		if member.recorder, err = one.begin(member.db.target, time.Duration(m.interval), nil); err != nil {
			return stop, errors.Join(err, stop())
		}
		say(os.Stderr, "recording %s in %s", member.db.target, one.path)
	}
	return stop, nil
}

// recordingName returns the name of the file for a server. Those of two labels that differ in other characters only would be
// the same, so the later one has a number.
func recordingName(label string, taken []string) string {
	name := unsafeInName.ReplaceAllString(label, "_")
	for n := 1; ; n++ {
		file := name + ".rec"
		if n > 1 {
			file = fmt.Sprintf("%s-%d.rec", name, n)
		}
		if !slices.Contains(taken, file) {
			return file
		}
	}
}
