package cli

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/notify"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// notifyFlags are the flags that name the command that is told of events.
type notifyFlags struct {
	command  string
	every    seconds
	notifier *notify.Notifier // nil without a command
}

func (n *notifyFlags) addTo(cmd *cobra.Command) {
	n.every = seconds(10 * time.Second)
	flags := cmd.Flags()
	flags.StringVar(&n.command, "on-event", "", "start `COMMAND` with the events on its standard input")
	flags.Var(&n.every, "notify-every", "start it at most once in each `period`, with all that happened meanwhile")
	completeToFiles(cmd, "on-event")
}

// wanted reports whether events go somewhere.
func (n *notifyFlags) wanted() bool { return n.command != "" }

// prepare reads the flags.
func (n *notifyFlags) prepare(cmd *cobra.Command, once bool) error {
	switch {
	case !n.wanted() && cmd.Flags().Changed("notify-every"):
		return misuse(cmd, "--notify-every needs --on-event")
	case !n.wanted():
		return nil
	case once:
		return misuse(cmd, "--on-event contradicts --once: events happen between two snapshots")
	case time.Duration(n.every) < time.Second:
		return misuse(cmd, "--notify-every must be at least a second")
	}
	command, err := notify.ParseCommand(n.command)
	if err != nil {
		return misuse(cmd, "--on-event: %w", err)
	}
	n.notifier = notify.New(command, time.Duration(n.every), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	return nil
}

// start starts deliveries. The returned function ends them when there are no further events, after what is left.
func (n *notifyFlags) start() (stop func()) {
	if n.notifier == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background()) // it ends after the last event
	var running sync.WaitGroup
	running.Go(func() { n.notifier.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// add passes on the events that the filter shows.
func (n *notifyFlags) add(filter view.Filter, events []journal.Event) {
	if n.notifier != nil {
		n.notifier.Add(filter.Events(events))
	}
}
