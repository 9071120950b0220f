package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

var (
	//go:embed image.sh
	script string
	//go:embed entrypoint
	entrypoint string
)

// image returns the name of the system's image, which it makes if the one for this script and these packages is missing.
// docker image rm lets it be made again, from newer packages.
func (s system) image(ctx context.Context) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(append(slices.Clone(s.packages), s.release, script, entrypoint), "\x00")))
	name := fmt.Sprintf("pglock-matrix/%s:%s", s.packages[0], hex.EncodeToString(sum[:6]))
	if _, err := docker(ctx, "image", "inspect", name); err == nil {
		return name, nil
	}
	dir, err := os.MkdirTemp("", "pglock-image-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for file, text := range map[string]string{"image.sh": script, "entrypoint": entrypoint} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o700); err != nil { //nolint:gosec // a script
			return "", err
		}
	}
	args := append([]string{s.release, filepath.Join(dir, "entrypoint"), name}, s.packages...)
	output, err := exec.CommandContext(ctx, filepath.Join(dir, "image.sh"), args...).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		return "", fmt.Errorf("make an image of %s of Debian %s: %w: %s", s.packages[0], s.release, err, lines[len(lines)-1])
	}
	return name, nil
}
