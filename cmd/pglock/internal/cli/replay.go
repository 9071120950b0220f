package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/tui"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

const replayHelp = `It shows the next snapshot each second; [ and ] go back and forward by a minute,
{ and } by ten; p pauses. It also reads the rotated files FILE.*. --at says
where to begin: 01:14, 01:14:30, "2026-11-22 01:14" (in UTC, by the server's
clock), or a time with its zone, such as 2026-11-22T01:14:00Z. A time of day
means the last such time in the recording.

With --output, or without a terminal, it prints the snapshot at --at, or all of
them; with --events, one line for each event.

It reads from five minutes before --at, to find out since when locks are held
and which code took them.`

type replay struct {
	at      string
	output  format
	events  bool
	filters filters
}

func newReplay() *cobra.Command {
	r := replay{}
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Show a recording of pglock watch in the view of pglock monitor",
		Long:  replayHelp,
		Example: `  pglock replay locks.rec --at 01:14
  pglock replay locks.rec --at 01:14 -o json | jq '.locks[].key'
  pglock replay locks.rec --events --key invoice:42`,
		Args: arguments(1, 1, "the FILE of a recording"),
		RunE: r.command,
	}
	flags := cmd.Flags()
	flags.StringVar(&r.at, "at", "", "begin at this `TIME`")
	flags.BoolVar(&r.events, "events", false, "print events instead of snapshots")
	r.filters.addTo(cmd)
	r.output.addTo(cmd, formatText, formatJSON, formatNDJSON)
	return cmd
}

func (r *replay) command(cmd *cobra.Command, args []string) error {
	filter, err := r.filters.filter(cmd)
	if err != nil {
		return err
	}
	past, err := openRecording(args[0])
	if err != nil {
		return &exit{codeOther, err}
	}
	defer sayDamage(past)
	first, last, ok := past.Bounds()
	if !ok {
		return &exit{codeOther, fmt.Errorf("%s has no snapshot", args[0])}
	}
	at := first
	if r.at != "" {
		if at, err = parseMoment(r.at, last); err != nil {
			return misuse(cmd, "--at: %w", err)
		}
		if at.Before(first) || at.After(last) {
			return misuse(cmd, "--at: the recording covers %s to %s", first.Format(time.RFC3339), last.Format(time.RFC3339))
		}
	}
	_, err = job.While(cmd.Context(), job.Catch(), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.show(ctx, past, at, args[0], filter)
	})
	return unlessStopped(err)
}

// openRecording opens a recording, with its rotated files if only one file is named.
func openRecording(files ...string) (past *recording.Past, err error) {
	if len(files) == 1 {
		if files, err = recording.Files(files[0]); err != nil {
			return nil, err
		}
	}
	return recording.OpenPast(files...)
}

func sayDamage(past *recording.Past) {
	if err := past.Damaged(); err != nil {
		say(os.Stderr, "%v; showing what can be read", err)
	}
}

// parseMoment parses a time, in the zone of last if it names none. Without a date it is the latest such time that is not
// after last.
func parseMoment(text string, last time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(layout, text, last.Location()); err == nil {
			return at.UTC(), nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			onDay := func(day int) time.Time {
				return time.Date(last.Year(), last.Month(), day, at.Hour(), at.Minute(), at.Second(), 0, last.Location())
			}
			moment := onDay(last.Day())
			if moment.After(last) {
				moment = onDay(last.Day() - 1)
			}
			return moment.UTC(), nil
		}
	}
	return time.Time{}, errors.New(`want a time such as 01:14, "2026-11-22 01:14" or 2026-11-22T01:14:00Z`)
}

func (r *replay) show(ctx context.Context, past *recording.Past, at time.Time, file string, filter view.Filter) error {
	p := newPlayer(past)
	defer p.close()
	if r.output == formatText && !r.events && fillsScreen() {
		return replayOnScreen(ctx, p, at, file, filter)
	}
	s, err := p.seek(at)
	on, separator := view.Server{Target: file, Past: true}, ""
	for ; ctx.Err() == nil; s, err = p.next() {
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &exit{codeOther, err}
		case r.events:
			err = printEvents(os.Stdout, r.output, filter.Events(s.Database, p.newEvents()))
		default:
			if separator != "" && r.output == formatText {
				_, err = os.Stdout.WriteString(separator)
			}
			err, separator = errors.Join(err, printSnapshot(os.Stdout, r.output, s, filter, on)), "\n"
		}
		if err != nil || r.at != "" && !r.events {
			return err
		}
	}
	return nil
}

func replayOnScreen(ctx context.Context, p *player, at time.Time, file string, filter view.Filter) error {
	first, err := p.seek(at)
	if err != nil {
		return &exit{codeOther, err}
	}
	on := view.Server{Target: "REPLAY of " + file, Past: true}
	last, err := tui.Run(ctx, tui.Options{Server: on, Interval: time.Second, Filter: filter, Output: os.Stdout, First: first, Seek: p.jump,
		Take: func(context.Context) (*monitor.Snapshot, error) {
			s, err := p.next()
			if errors.Is(err, io.EOF) {
				return p.last(), nil // the view stays at the end
			}
			return s, err
		}})
	return errors.Join(err, leave(last, filter, view.Server{Target: file, Past: true}))
}

// journalLead is how long before the shown time the journal starts.
const journalLead = 5 * time.Minute

// player plays a recording. Its methods may be called concurrently.
type player struct {
	past *recording.Past

	mu      sync.Mutex
	pull    func() (recording.Frame, error, bool)
	stop    func()
	journal *journal.Journal
	events  []journal.Event // of the last step
	now     *monitor.Snapshot
	held    *recording.Frame // the frame that seek read beyond its target
}

func newPlayer(past *recording.Past) *player { return &player{past: past, stop: func() {}} }

func (p *player) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

// seek goes to the last snapshot at or before a time, or else to the first.
func (p *player) seek(at time.Time) (*monitor.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.pull, p.stop = iter.Pull2(p.past.Play(at.Add(-journalLead)))
	p.journal, p.events, p.now, p.held = journal.New(), nil, nil, nil
	for {
		frame, err := p.read()
		switch {
		case errors.Is(err, io.EOF) && p.now != nil:
			return p.now, nil
		case err != nil:
			return nil, err
		case p.now != nil && frame.Snapshot.TakenAt.After(at):
			p.held = &frame
			return p.now, nil
		}
		p.update(frame)
	}
}

// jump seeks by a duration from the current position.
func (p *player) jump(by time.Duration) error {
	_, err := p.seek(p.last().TakenAt.Add(by))
	return err
}

// next goes to the next snapshot. It returns io.EOF if there is none.
func (p *player) next() (*monitor.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	frame, err := p.read()
	if err != nil {
		return nil, err
	}
	p.update(frame)
	return p.now, nil
}

// read returns the next frame with a snapshot.
func (p *player) read() (recording.Frame, error) {
	if p.held != nil {
		frame := *p.held
		p.held = nil
		return frame, nil
	}
	for {
		frame, err, ok := p.pull()
		switch {
		case !ok:
			return frame, io.EOF
		case err != nil:
			return frame, err
		case frame.Outage != nil:
			p.journal.Missed(errors.New(frame.Outage.Reason))
		case frame.Snapshot != nil:
			return frame, nil
		}
	}
}

func (p *player) update(frame recording.Frame) {
	p.now, p.events = frame.Snapshot, p.journal.See(frame.Snapshot, frame.Ended...)
}

func (p *player) last() *monitor.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// newEvents returns the events of the last step.
func (p *player) newEvents() []journal.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events
}
