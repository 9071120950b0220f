package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BinariesVariable is the environment variable that names the directory of PostgreSQL's programs.
const BinariesVariable = "PGLOCK_POSTGRES_BIN"

// ErrNoBinaries says that the programs of a PostgreSQL server were not found. The errors that match it say what to do.
var ErrNoBinaries = errors.New("no PostgreSQL server programs found")

const howToInstall = `install PostgreSQL 14 or newer (it need not be running):
  Debian, Ubuntu:  apt-get install postgresql
  Fedora, RHEL:    dnf install postgresql-server
  macOS:           brew install postgresql@17
or set ` + BinariesVariable + ` to the directory that holds initdb and postgres`

// usualPlaces are the directories of packages that do not put their programs on the PATH.
var usualPlaces = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// Binaries are the programs of one PostgreSQL installation.
type Binaries struct {
	// Dir holds initdb, postgres and, for [Server.Standby], pg_basebackup.
	Dir string
	// Version is the server's, such as "17.5" or "18beta1".
	Version string
	// Major is the first number of Version.
	Major int
}

// Find finds PostgreSQL's programs: in the directory that PGLOCK_POSTGRES_BIN names or, if that is not set, on the
// PATH, and then the newest version in the usual places of packages. Its error matches [ErrNoBinaries].
func Find() (Binaries, error) {
	if dir := os.Getenv(BinariesVariable); dir != "" {
		found, err := BinariesIn(dir)
		if err != nil {
			return Binaries{}, fmt.Errorf("%s: %w", BinariesVariable, err)
		}
		return found, nil
	}
	for _, places := range [][]string{onPath(), usualPlaces} {
		if found, ok := newestIn(places); ok {
			return found, nil
		}
	}
	return Binaries{}, fmt.Errorf("%w on the PATH or in the usual places: %s", ErrNoBinaries, howToInstall)
}

// onPath returns the directory of the programs on the PATH. Some of them may not be linked from there.
func onPath() []string {
	path, err := exec.LookPath("postgres")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil
	}
	return []string{filepath.Dir(path)}
}

func newestIn(places []string) (newest Binaries, ok bool) {
	for _, place := range places {
		dirs, err := filepath.Glob(place)
		if err != nil {
			continue
		}
		for _, dir := range dirs {
			if found, err := BinariesIn(dir); err == nil && found.Major > newest.Major {
				newest, ok = found, true
			}
		}
	}
	return newest, ok
}

// BinariesIn returns the programs in dir after asking for their version. Its error matches [ErrNoBinaries] and says
// what is wrong with dir.
func BinariesIn(dir string) (Binaries, error) {
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return Binaries{}, fmt.Errorf("%w in %s: %w", ErrNoBinaries, dir, err)
	}
	output, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("%w in %s: ask for the version: %w", ErrNoBinaries, dir, err)
	}
	found := Binaries{Dir: dir}
	var rest string // of what it prints, such as "postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)"
	if _, err := fmt.Sscanf(string(output), "postgres (PostgreSQL) %d%s", &found.Major, &rest); err != nil {
		return Binaries{}, fmt.Errorf("%w in %s: %q is not a PostgreSQL version", ErrNoBinaries, dir, output)
	}
	found.Version = fmt.Sprint(found.Major, rest)
	return found, nil
}

func (b Binaries) program(name string) string { return filepath.Join(b.Dir, name) }

// String is for people: "PostgreSQL 15.13 in /usr/lib/postgresql/15/bin".
func (b Binaries) String() string { return fmt.Sprintf("PostgreSQL %s in %s", b.Version, b.Dir) }
