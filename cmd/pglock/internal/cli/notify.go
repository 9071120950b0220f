package cli

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/notify"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/secretfile"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// notifyFlags are the flags that say who is told of events, and of which.
type notifyFlags struct {
	command, webhook, webhookFile string
	every                         seconds
	kinds                         []string

	notifiers []*notify.Notifier
}

// notifiedKinds are the kinds of events, in the order in which the help lists them.
var notifiedKinds = []journal.Kind{journal.WaitBegan, journal.WaitEnded, journal.Acquired, journal.PassedOn, journal.Released,
	journal.Deadlock, journal.DeadlockOver, journal.SessionEnded, journal.Gap}

func (n *notifyFlags) addTo(cmd *cobra.Command) {
	n.every = seconds(10 * time.Second)
	flags := cmd.Flags()
	flags.StringVar(&n.command, "on-event", "", "start `COMMAND` with the events on its standard input")
	flags.StringVar(&n.webhook, "webhook", "", "post events as JSON to this `URL`, such as one of Slack")
	flags.StringVar(&n.webhookFile, "webhook-file", "", "read the URL from `FILE`, so that it is not visible as an argument")
	flags.Var(&n.every, "notify-every", "do either at most once in each `period`, with all that happened meanwhile")
	flags.StringSliceVar(&n.kinds, "notify-kind", nil, "tell only of events of this `KIND`, such as deadlock; may be repeated")
	complete(cmd, "notify-every")
	complete(cmd, "webhook")
	complete(cmd, "notify-kind", kindNames()...)
	if err := cmd.MarkFlagFilename("webhook-file"); err != nil {
		panic(err) // the flag was not added before
	}
}

func kindNames() (names []string) {
	for _, kind := range notifiedKinds {
		names = append(names, string(kind))
	}
	return names
}

// wanted reports whether events go somewhere.
func (n *notifyFlags) wanted() bool { return n.command != "" || n.webhook != "" || n.webhookFile != "" }

// prepare reads the flags.
func (n *notifyFlags) prepare(cmd *cobra.Command, once bool) error {
	changed := func(flag string) bool { return cmd.Flags().Changed(flag) }
	switch {
	case !n.wanted() && (changed("notify-every") || changed("notify-kind")):
		return misuse(cmd, "--notify-every and --notify-kind need --on-event or --webhook")
	case !n.wanted():
		return nil
	case once:
		return misuse(cmd, "--on-event and --webhook contradict --once: events happen between two snapshots")
	case n.webhook != "" && n.webhookFile != "":
		return misuse(cmd, "--webhook contradicts --webhook-file")
	case time.Duration(n.every) < time.Second:
		return misuse(cmd, "--notify-every must be at least a second")
	}
	for _, kind := range n.kinds {
		if !slices.Contains(kindNames(), kind) {
			return misuse(cmd, "--notify-kind %q: want one of %s", kind, strings.Join(kindNames(), ", "))
		}
	}
	return n.addTargets(cmd)
}

func (n *notifyFlags) addTargets(cmd *cobra.Command) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	add := func(target notify.Target) {
		n.notifiers = append(n.notifiers, notify.New(target, time.Duration(n.every), logger))
	}
	if n.command != "" {
		command, err := notify.NewCommand(n.command)
		if err != nil {
			return misuse(cmd, "--on-event: %w", err)
		}
		add(command)
	}
	address, flag := n.webhook, "--webhook"
	if n.webhookFile != "" {
		flag = "--webhook-file"
		lines, err := secretfile.Lines(n.webhookFile)
		if err != nil {
			return misuse(cmd, "--webhook-file: %w", err)
		}
		if len(lines) != 1 {
			return misuse(cmd, "--webhook-file: %s must have one line with a URL", n.webhookFile)
		}
		address = lines[0].Text
	}
	if address != "" {
		webhook, err := notify.NewWebhook(address)
		if err != nil {
			return misuse(cmd, "%s: %w", flag, err)
		}
		add(webhook)
	}
	return nil
}

// start starts deliveries. The returned function ends them when there are no further events, after what is left.
func (n *notifyFlags) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background()) // it ends after the last event
	var running sync.WaitGroup
	for _, notifier := range n.notifiers {
		running.Go(func() { notifier.Run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// add gives the notifiers the events that the filter shows and that are of the wanted kinds.
func (n *notifyFlags) add(filter view.Filter, events []journal.Event) {
	if len(n.notifiers) == 0 {
		return
	}
	events = slices.Clone(filter.Events(events))
	if len(n.kinds) > 0 {
		events = slices.DeleteFunc(events, func(e journal.Event) bool { return !slices.Contains(n.kinds, string(e.Kind)) })
	}
	for _, notifier := range n.notifiers {
		notifier.Add(events)
	}
}
