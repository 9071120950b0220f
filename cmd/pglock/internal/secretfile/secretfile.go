// Package secretfile judges files that can contain passwords, which pgx reads even if other users can read or change them.
package secretfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// CheckPasswords returns an error for a file that libpq would not read passwords from, which asks more of them than of
// keys. A file that does not exist is none.
func CheckPasswords(path string) error { return check(path, false) }

// CheckKey returns an error for a file that libpq would not read a private key from. A file that does not exist is none.
func CheckKey(path string) error { return check(path, true) }

func check(path string, rootsGroup bool) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a plain file", path)
	}
	if err == nil {
		err = hidden(info, rootsGroup)
	}
	if err != nil {
		return fmt.Errorf("%s %w", path, err)
	}
	return nil
}
