package cronspec_test

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // so that the zones are those of a known time

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/cronspec"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func parse(t *testing.T, spec, zone string) cronspec.Spec {
	t.Helper()
	in, err := time.LoadLocation(zone)
	must.Succeed(t, err)
	s, err := cronspec.Parse(spec, in)
	must.Succeed(t, err)
	return s
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	must.Succeed(t, err)
	return when
}

func TestLast(t *testing.T) {
	for _, test := range []struct{ spec, zone, now, due string }{
		{"* * * * *", "UTC", "2026-11-25T02:03:04Z", "2026-11-25T02:03:00Z"},
		{"0 4 * * *", "UTC", "2026-11-25T04:00:00Z", "2026-11-25T04:00:00Z"},
		{"0 4 * * *", "UTC", "2026-11-25T03:59:59Z", "2026-11-24T04:00:00Z"},
		{"0 4 * * *", "Asia/Kolkata", "2026-11-25T00:00:00Z", "2026-11-25T04:00:00+05:30"},
		{"*/20 8-10 * * MON-FRI", "UTC", "2026-11-22T12:00:00Z", "2026-11-20T10:40:00Z"},
		{"0 0 * * 7", "UTC", "2026-11-25T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"0 0 * * 6-7", "UTC", "2026-11-25T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"0 0 29 2 *", "UTC", "2027-12-31T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"0 0 13 * FRI", "UTC", "2026-11-19T00:00:00Z", "2026-11-13T00:00:00Z"},      // either day, as in cron
		{"0 8 */100,1-7 * 1", "UTC", "2026-11-25T00:00:00Z", "2026-11-02T08:00:00Z"}, // both, behind a *
		{"0 0 1-7 * */7", "UTC", "2026-11-25T00:00:00Z", "2026-11-01T00:00:00Z"},
		{"0 0 */2,26 * 5", "UTC", "2026-11-28T00:00:00Z", "2026-11-27T00:00:00Z"},
		// Clocks went forward from 2 to 3 in Berlin on 29 March, and back from 3 to 2 on 25 October.
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T02:59:59+02:00", "2026-03-28T02:30:00+01:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T03:00:00+02:00", "2026-03-29T03:00:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T23:00:00+02:00", "2026-03-29T03:00:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T02:45:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T02:20:00+01:00", "2026-10-25T02:30:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T02:45:00+01:00", "2026-10-25T02:30:00+02:00"},
		{"*/15 * * * *", "Europe/Berlin", "2026-03-29T03:05:00+02:00", "2026-03-29T03:00:00+02:00"},
		{"45 * * * *", "Europe/Berlin", "2026-03-29T03:05:00+02:00", "2026-03-29T01:45:00+01:00"},
		{"45 * * * *", "Europe/Berlin", "2026-10-25T02:50:00+01:00", "2026-10-25T02:45:00+01:00"},
		// In Havana the clock goes forward at midnight, and on Lord Howe Island by half an hour.
		{"0 0 * * *", "America/Havana", "2026-03-08T12:00:00-04:00", "2026-03-08T01:00:00-04:00"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-04T12:00:00+11:00", "2026-10-04T02:30:00+11:00"},
		// Samoa had no 30 December 2011.
		{"0 9 * * *", "Pacific/Apia", "2011-12-31T08:00:00+14:00", "2011-12-31T00:00:00+14:00"},
	} {
		due := parse(t, test.spec, test.zone).Last(at(t, test.now))
		if got := due.Format(time.RFC3339); got != test.due {
			t.Errorf("%s in %s at %s was due at %s, want %s", test.spec, test.zone, test.now, got, test.due)
		}
	}
}

// A look every half hour, around each change of a clock, sees a time of the day due once on each date, and one of each hour
// 24 times in 24 hours.
func TestLastIsDueOnceADayAndOnceAnHour(t *testing.T) {
	const days = 3
	for _, begin := range []string{
		"2026-03-06T12:00:00Z", "2026-03-27T12:00:00Z", "2026-04-03T12:00:00Z",
		"2026-10-02T12:00:00Z", "2026-10-23T12:00:00Z", "2026-10-30T12:00:00Z",
	} {
		begin := at(t, begin)
		end := begin.AddDate(0, 0, days)
		for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Australia/Lord_Howe"} {
			for hour := range 3 {
				dates := map[string]bool{}
				for _, due := range seen(parse(t, fmt.Sprintf("30 %d * * *", hour), zone), begin, end) {
					if date := due.Format(time.DateOnly); dates[date] {
						t.Errorf("%s: %d:30 was due again on %s, at %v", zone, hour, date, due)
					} else {
						dates[date] = true
					}
				}
				if len(dates) != days {
					t.Errorf("%s: %d:30 was due on %d of %d days", zone, hour, len(dates), days)
				}
			}
			// On Lord Howe Island an hour has 30 minutes once a year, and 90 once.
			hours := len(seen(parse(t, "30 * * * *", zone), begin, end))
			if hours != 24*days && (zone != "Australia/Lord_Howe" || hours > 24*days+1 || hours < 24*days-1) {
				t.Errorf("%s: half past each hour came %d times in %d days", zone, hours, days)
			}
		}
	}
}

// seen returns the due times that appear between two times. They must not go back.
func seen(s cronspec.Spec, begin, end time.Time) (all []time.Time) {
	last := s.Last(begin)
	for now := begin; now.Before(end); now = now.Add(30 * time.Minute) {
		if due := s.Last(now); due.After(last) {
			last = due
			all = append(all, due)
		} else if due.Before(last) {
			return nil
		}
	}
	return all
}

func TestParseRefuses(t *testing.T) {
	for _, spec := range []string{"", "* * * *", "* * * * * *", "60 * * * *", "0 0 30 2 *", "TZ=UTC * * * *", "TZ=X * * * * *", "x * * * *", "*-5 * * * *", "0 ?-3 * * *", "1,*5 * * * *", "0 0 * * 8"} {
		if _, err := cronspec.Parse(spec, time.UTC); err == nil {
			t.Errorf("%q is accepted", spec)
		} else {
			t.Log(err)
		}
	}
}

// FuzzParse: what is due was due in the past, in any time zone.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"30 4 * * MON-FRI", "0 0 */2,26 * 5", "0 8 */100,1-7 * 1", "59 23 31 12 *", "0 0 29 2 *", "*-5 ? * * 7"} {
		f.Add(text, "Europe/Berlin", int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, text, zone string, seconds int64) {
		in, err := time.LoadLocation(zone)
		if err != nil {
			t.Skip(err)
		}
		now := time.Unix(seconds%(1<<33), 0) // until the year 2242
		spec, err := cronspec.Parse(text, in)
		if err == nil && spec.Last(now).After(now) {
			t.Errorf("%q was due last at %v, after %v", text, spec.Last(now), now)
		}
	})
}
