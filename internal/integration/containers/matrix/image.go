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
func (e *engine) image(ctx context.Context, s system) (string, error) {
	dir, err := os.MkdirTemp("", "pglock-image-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	released, err := release(ctx, dir, s.release)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(append(slices.Clone(s.packages), script, entrypoint, released), "\x00")))
	name := fmt.Sprintf("pglock-matrix/%s:%s", s.packages[0], hex.EncodeToString(sum[:6]))
	if docker(ctx, "image", "inspect", name) == nil {
		return name, nil
	}
	for file, text := range map[string]string{"image.sh": script, "entrypoint": entrypoint} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o700); err != nil { //nolint:gosec // a script
			return "", err
		}
	}
	args := append([]string{s.release, filepath.Join(dir, "entrypoint"), name}, s.packages...)
	output, err := exec.CommandContext(ctx, filepath.Join(dir, "image.sh"), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make an image of %s of Debian %s: %w: %s", s.packages[0], s.release, err, lastLine(string(output)))
	}
	return name, nil
}

// release returns the index of a release of Debian, which changes with any of its packages. apt's helper loads it, with the
// proxies that apt knows.
func release(ctx context.Context, dir, name string) (string, error) {
	mirror, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Created-By: Packages", "Label: Debian", "Component: main").Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for its mirror of Debian: %w", err)
	}
	first, _, _ := strings.Cut(string(mirror), "\n")
	if first == "" {
		return "", fmt.Errorf("apt knows no mirror of Debian on this machine")
	}
	file := filepath.Join(dir, "InRelease")
	url := strings.TrimSuffix(first, "/") + "/dists/" + name + "/InRelease"
	if output, err := exec.CommandContext(ctx, "/usr/lib/apt/apt-helper", "download-file", url, file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("load %s: %w: %s", url, err, lastLine(string(output)))
	}
	text, err := os.ReadFile(file)
	return string(text), err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
