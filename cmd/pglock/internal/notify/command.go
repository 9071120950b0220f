package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// Command is a program that is started for each group. It gets the events on its standard input, as JSON, one on a line,
// and its environment says in PGLOCK_TEXT what they are and in PGLOCK_EVENTS how many there are. There is no shell, and no
// argument is made from an event. Its output goes to standard error.
type Command struct{ argv []string }

// ParseCommand returns the command of a line, which is split at spaces. The program must exist.
func ParseCommand(line string) (Command, error) {
	argv := strings.Fields(line)
	if len(argv) == 0 {
		return Command{}, errors.New("there is no command")
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return Command{}, err
	}
	argv[0] = path
	return Command{argv}, nil
}

func (c Command) run(ctx context.Context, g Group) error {
	var input bytes.Buffer
	if err := view.EventsNDJSON(&input, g.Events); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &input, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "PGLOCK_TEXT="+g.Text(), fmt.Sprint("PGLOCK_EVENTS=", len(g.Events)+g.Omitted))
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		err = errors.New("it was killed, since it took too long")
	}
	return err
}
