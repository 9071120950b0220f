// Package secretfile reads files that can contain passwords, and refuses those that other users can read or change. It
// judges the files that pgx reads, which does not.
package secretfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxBytes is more than any list of servers needs.
const maxBytes = 1 << 20

// Line is a line of a file, without surrounding space.
type Line struct {
	Number int
	Text   string
}

// Lines reads the lines of a file that are neither empty nor begin with #. Errors never contain a part of the file.
func Lines(path string) ([]Line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()            // of the opened file, even if the path now refers to another
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	if err := private(info); err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	var lines []Line
	scanner, number := bufio.NewScanner(io.LimitReader(file, maxBytes)), 1
	for ; scanner.Scan(); number++ {
		text := strings.TrimSpace(strings.TrimPrefix(scanner.Text(), "\ufeff"))
		if text != "" && !strings.HasPrefix(text, "#") {
			lines = append(lines, Line{number, text})
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d of %s is longer than %d bytes, the maximum", number, path, bufio.MaxScanTokenSize-1)
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return lines, nil
}

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
