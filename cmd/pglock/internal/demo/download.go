package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// MirrorVariable is the environment variable with the URL of a mirror of the Maven repository that PostgreSQL is
// downloaded from.
const MirrorVariable = "PGLOCK_POSTGRES_MIRROR"

// downloadInto downloads in another process, which can be killed at any time and leaves its temporary files in dir.
func (d *Demo) downloadInto(ctx context.Context, dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	cmd := d.command(ctx, "download", dir)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		reason := strings.TrimPrefix(strings.TrimSpace(said.String()), "pglock: ")
		return fmt.Errorf("download PostgreSQL: %s (%w)", reason, err)
	}
	return nil
}

// download puts PostgreSQL's programs into dir/programs. The library that downloads them can only start a server, and
// only as the user of this process, which must not be root. So the server is configured such that initdb fails, which
// happens after the download.
func download(dir string) error {
	port, err := supervise.FreePort()
	if err != nil {
		return err
	}
	config := embeddedpostgres.DefaultConfig().Encoding("none").Port(uint32(port)).Logger(io.Discard).
		BinariesPath(filepath.Join(dir, "programs")).
		RuntimePath(filepath.Join(dir, "runtime")).DataPath(filepath.Join(dir, "data"))
	if cache, err := os.UserCacheDir(); err == nil {
		config = config.CachePath(filepath.Join(cache, "pglock"))
	}
	if mirror := os.Getenv(MirrorVariable); mirror != "" {
		if err := secureMirror(mirror); err != nil {
			return err
		}
		config = config.BinaryRepositoryURL(mirror)
	}
	http.DefaultClient.Transport = verified{http.DefaultTransport} // used by the library
	server := embeddedpostgres.NewDatabase(config)
	refused := server.Start()
	if refused == nil {
		return errors.Join(errors.New("a server was started that should not have been"), server.Stop())
	}
	if _, err := pgserver.BinariesIn(filepath.Join(dir, "programs", "bin")); err != nil {
		return refused
	}
	return nil
}
