//go:build unix

package secretfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLinesOfAPrivateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers")
	write(t, path, "\ufeff# servers\n\n  host=a  \n\t#b\nservice=c\r\n", 0o600)
	lines, err := Lines(path)
	if err != nil || !slices.Equal(lines, []Line{{3, "host=a"}, {5, "service=c"}}) {
		t.Errorf("the lines are %v (%v)", lines, err)
	}
}

func TestAFileThatOthersCanReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers")
	write(t, path, "postgres://u:s3cret@h/d\n", 0o600)
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o604: false, 0o644: false, 0o660: false,
		0o622: false, 0o640: os.Geteuid() == 0} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Lines(path)
		if (err == nil) != ok {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestAFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give a file away")
		return
	}
	path := filepath.Join(t.TempDir(), "servers")
	write(t, path, "host=a\n", 0o600)
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Lines(path); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("the error is %v", err)
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := Lines(path); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
