// Package cronspec finds the due times of cron expressions in a time zone.
//
// robfig/cron reads the expressions. It is asked in UTC only, and answers for the dates and times that a clock on the wall
// shows. When such a clock is set, as on the two days a year on
// which daylight saving time begins and ends, this package decides which of its times are due, as cron does:
//
//   - If the hours are not *, each time of the day that the expression names is due once a day. A time that is skipped is
//     due when the clock goes forward, and of a time that comes twice the first one is due.
//   - If the hours are * or */n, the expression is due whenever the clock shows such a time: twice in an hour that
//     comes twice, and not in an hour that is skipped.
package cronspec

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/robfig/cron/v3"
)

// Spec is a cron expression in a time zone.
type Spec struct {
	zone  *time.Location
	wall  cron.Schedule // its times are those of a clock on the wall, written as times in UTC
	clock bool          // due whenever the clock shows such a time
}

// Parse reads the five fields of a cron expression: minute, hour, day of the month, month and day of the week.
func Parse(text string, zone *time.Location) (Spec, error) {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return Spec{}, fmt.Errorf("want the five fields of a cron expression, such as \"30 4 * * MON-FRI\", not %d", len(fields))
	}
	for _, item := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == ',' }) {
		if rest := strings.TrimLeft(item, "*?"); rest != item && rest != "" && rest[0] != '/' { // the parser takes *-5 for *
			return Spec{}, fmt.Errorf("%s: behind * there can be a step only, such as */5", item)
		}
	}
	fields[4] = sundays(fields[4])
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	wall, err := parser.Parse("CRON_TZ=UTC " + strings.Join(fields, " "))
	if err != nil {
		return Spec{}, err
	}
	restrictDays(wall.(*cron.SpecSchedule), fields)
	if wall.Next(time.Now()).IsZero() {
		return Spec{}, errors.New("it is never due")
	}
	return Spec{zone, wall, strings.HasPrefix(fields[1], "*")}, nil
}

// restrictDays makes a day match both day fields if one begins with *, as crontab(5) has it: */100,1-7 and MON are the first
// Monday of the month. The parser does that for a * alone, but not for one with a step.
func restrictDays(s *cron.SpecSchedule, fields []string) {
	const star = 1 << 63 // the parser's own sign
	if strings.HasPrefix(fields[2], "*") {
		s.Dom |= star
	}
	if strings.HasPrefix(fields[4], "*") {
		s.Dow |= star
	}
}

// sundays writes the days of the week with 0 for Sunday where they have 7, which cron permits and the parser does not.
func sundays(days string) string {
	items := strings.Split(days, ",")
	for i, item := range items {
		if item == "7" {
			items[i] = "0"
		} else if from, ends := strings.CutSuffix(item, "-7"); ends {
			items[i] = from + "-6,0"
		}
	}
	return strings.Join(items, ",")
}

// Last returns the last due time that is not after now, in the zone. It is the zero time if there was none in five years.
func (s Spec) Last(now time.Time) time.Time {
	oldest := now.AddDate(-5, 0, 0)
	for end := now.In(s.zone); end.After(oldest); {
		start, _ := end.ZoneBounds() // between these times the clock is not set
		if start.IsZero() {
			start = oldest
		}
		if wall := s.lastOnWall(onWall(end)); !wall.Before(s.first(start)) {
			due := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, zoneAt(end))
			if due.Before(start) { // skipped
				due = start
			}
			return due.In(s.zone)
		}
		end = start.Add(-time.Nanosecond)
	}
	return time.Time{}
}

// first returns the first time on the wall that belongs to the time from start on, when the clock has been set. For an
// expression whose times come once a day these are the times after those that the clock showed before; among
// them are those that it skips.
func (s Spec) first(start time.Time) time.Time {
	if s.clock {
		return onWall(start)
	}
	return onWall(start.Add(-time.Nanosecond)).Add(time.Nanosecond)
}

// onWall returns what a clock on the wall shows, written as a time in UTC.
func onWall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

func zoneAt(t time.Time) *time.Location { return time.FixedZone(t.Zone()) }

// lastOnWall returns the last time that is not after now. The parser only finds the next one after a time, so that is
// asked for times further and further back and then, between the last two, for the half each time.
func (s Spec) lastOnWall(now time.Time) time.Time {
	comes := func(after time.Time) (due time.Time, found bool) {
		due = s.wall.Next(after)
		return due, !due.IsZero() && !due.After(now)
	}
	var last time.Time
	late := now // no time is due from then on
	for back := time.Minute; last.IsZero(); back *= 2 {
		early := now.Add(-back)
		if due, found := comes(early); found {
			last = due
		} else if early.Before(now.AddDate(-5, 0, 0)) {
			return time.Time{}
		} else {
			late = early
		}
	}
	for late.Sub(last) >= time.Minute {
		half := last.Add(late.Sub(last) / 2)
		if due, found := comes(half); found {
			last = due
		} else {
			late = half
		}
	}
	return last
}
