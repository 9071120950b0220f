package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
)

// serve writes a folder that the go command can use as a GOPROXY, with the tagged version of each published module.
// "go help goproxy" describes it.
func (r *repository) serve(folder, version string) error {
	for _, m := range r.published() {
		escaped, err := module.EscapePath(m.path)
		if err != nil {
			return err
		}
		if err := r.serveOne(filepath.Join(folder, filepath.FromSlash(escaped), "@v"), m, version); err != nil {
			return err
		}
	}
	return nil
}

func (r *repository) serveOne(folder string, m *mod, version string) error {
	goMod, readErr := os.ReadFile(filepath.Join(r.folder(m), "go.mod"))
	info, marshalErr := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err := errors.Join(readErr, marshalErr, os.MkdirAll(folder, 0o755)); err != nil {
		return err
	}
	zip, err := os.Create(filepath.Join(folder, version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "list"), []byte(version+"\n"), 0o644),
		os.WriteFile(filepath.Join(folder, version+".info"), info, 0o644),
		os.WriteFile(filepath.Join(folder, version+".mod"), goMod, 0o644),
		r.zip(zip, m, version, m.tagOf(version)), zip.Close(),
	)
}
