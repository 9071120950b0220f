package pgserver

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// initialize makes the data directory.
func (s *Server) initialize(ctx context.Context, o Options) error {
	var err error
	if o.Template != "" {
		err = s.copyTemplate(ctx, o.Template)
	} else {
		err = s.runInitdb(ctx)
	}
	if err != nil {
		return err
	}
	return s.configure(o.Settings)
}

// runInitdb lets clients send the password as it is, over loopback: what SCRAM costs them, with the race detector two
// milliseconds for each connection, protects nothing here.
func (s *Server) runInitdb(ctx context.Context) error {
	file, err := s.WriteFile("verifier", Verifier(s.password)+"\n")
	if err != nil {
		return err
	}
	initdb := s.Command(ctx, s.binaries.program("initdb"), "--pgdata="+s.dataDir(), "--no-sync",
		"--encoding=UTF8", "--locale=C", "--username="+Superuser, "--auth=password", "--pwfile="+file)
	return run(initdb)
}

func (s *Server) dataDir() string { return s.Path("data") }

// configure appends to postgresql.conf, where the last line for a setting counts.
func (s *Server) configure(settings map[string]string) error {
	conf, err := os.OpenFile(s.Path("data/postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString(configuration(settings))
	if closeErr := conf.Close(); err == nil {
		err = closeErr
	}
	return err
}

func configuration(settings map[string]string) string {
	all := map[string]string{"fsync": "off", "log_line_prefix": "%m [%p] %q%u@%d %a "}
	maps.Copy(all, settings)
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&lines, "%s = '%s'\n", name, escape.Replace(all[name]))
	}
	return lines.String()
}

// escape makes a value that DeescapeQuotedString in src/backend/utils/misc/guc-file.l reads back.
var escape = strings.NewReplacer(`'`, `''`, `\`, `\\`, "\n", `\n`)

// run runs one of PostgreSQL's programs to its end. The error ends with the program's output.
func run(cmd *exec.Cmd) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, supervise.LastLines(output.String()))
	}
	return nil
}
