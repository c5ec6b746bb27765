package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/schedule"
)

const layout = "2006-01-02 15:04:05 -0700"

// at reads a time as the tests write it.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(layout, text)
	require.NoError(t, err)
	return when
}

func parse(t require.TestingT, expression, timezone string) schedule.Cron {
	c, err := schedule.Parse(expression, timezone)
	require.NoError(t, err)
	return c
}

func TestNext(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin" // 2026: forward on March 29 at 2, back on October 25 at 3
	for name, test := range map[string]struct {
		cron, zone, after string
		want              []string
	}{
		"five fields": {"30 4 * * 1-5", "UTC", "2026-06-05 04:30:00 +0000", []string{"2026-06-08 04:30:00 +0000", "2026-06-09 04:30:00 +0000"}},
		"a time that is due now is past": {
			"0 0 1 * *", "UTC", "2026-01-01 00:00:00 +0000", []string{"2026-02-01 00:00:00 +0000", "2026-03-01 00:00:00 +0000"},
		},
		"either day": {"0 0 13 * FRI", "UTC", "2026-11-07 00:00:00 +0000", []string{"2026-11-13 00:00:00 +0000", "2026-11-20 00:00:00 +0000"}},
		"leap day":   {"0 12 29 2 *", "UTC", "2026-01-01 00:00:00 +0000", []string{"2028-02-29 12:00:00 +0000"}},
		"daily":      {"@daily", "America/New_York", "2026-07-01 12:00:00 +0000", []string{"2026-07-02 00:00:00 -0400"}},
		"yearly":     {"@yearly", "Asia/Tokyo", "2026-07-01 12:00:00 +0000", []string{"2027-01-01 00:00:00 +0900"}},
		"every":      {"@every 90m", "UTC", "2026-07-01 12:00:00 +0000", []string{"2026-07-01 13:30:00 +0000", "2026-07-01 15:00:00 +0000"}},

		"a skipped time comes after the change, once": {
			"0,30 2 * * *", berlin, "2026-03-28 02:30:00 +0100", []string{"2026-03-29 03:00:00 +0200", "2026-03-30 02:00:00 +0200"},
		},
		"a time shown twice comes at the first": {
			"0,30 2 * * *", berlin, "2026-10-25 00:00:00 +0200",
			[]string{"2026-10-25 02:00:00 +0200", "2026-10-25 02:30:00 +0200", "2026-10-26 02:00:00 +0100"},
		},
		"from within the second showing": {"15 2 * * *", berlin, "2026-10-25 02:10:00 +0100", []string{"2026-10-26 02:15:00 +0100"}},
		"hourly goes on evenly at the change forward": {
			"@hourly", berlin, "2026-03-29 00:30:00 +0100",
			[]string{"2026-03-29 01:00:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-29 04:00:00 +0200"},
		},
		"and back": {
			"*/30 * * * *", berlin, "2026-10-25 02:00:00 +0200",
			[]string{"2026-10-25 02:30:00 +0200", "2026-10-25 02:00:00 +0100", "2026-10-25 02:30:00 +0100", "2026-10-25 03:00:00 +0100"},
		},
		"every other hour by the clock": {
			"0 */2 * * *", berlin, "2026-03-29 00:00:00 +0100", []string{"2026-03-29 04:00:00 +0200", "2026-03-29 06:00:00 +0200"},
		},
		"a change of half an hour": {
			"*/15 * * * *", "Australia/Lord_Howe", "2026-04-05 01:45:00 +1100",
			[]string{"2026-04-05 01:30:00 +1030", "2026-04-05 01:45:00 +1030", "2026-04-05 02:00:00 +1030"},
		},
		"midnight that is skipped": {
			"@daily", "America/Sao_Paulo", "2018-11-03 12:00:00 -0300", []string{"2018-11-04 01:00:00 -0200", "2018-11-05 00:00:00 -0200"},
		},
		"a day that is skipped": {
			"0 9 * * *", "Pacific/Apia", "2011-12-29 12:00:00 -1000", []string{"2011-12-31 00:00:00 +1400", "2011-12-31 09:00:00 +1400"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, now := parse(t, test.cron, test.zone), at(t, test.after)
			for _, want := range test.want {
				next := c.Next(now)
				require.Equal(t, want, next.Format(layout))
				now = next
			}
		})
	}
}

func TestParse_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ cron, zone, says string }{
		{"", "UTC", "is empty"},
		{"* * * *", "UTC", "expected exactly 5 fields, found 4"},
		{"* * * * * *", "UTC", "expected exactly 5 fields, found 6"},
		{"61 * * * *", "UTC", "61"},
		{"0 0 * * mo", "UTC", "mo"},
		{"5-1 * * * *", "UTC", "beyond end of range"},
		{"*/0 * * * *", "UTC", "step"},
		{"0 0 30 2 *", "UTC", "no such day ever comes"},
		{"@often", "UTC", "@often"},
		{"@every 10ms", "UTC", "whole seconds"},
		{"@every 1.5s", "UTC", "whole seconds"},
		{"@every -1h", "UTC", "whole seconds"},
		{"@every soon", "UTC", "soon"},
		{", * * * *", "UTC", "nothing in it"},
		{"CRON_TZ=UTC 0 0 * * *", "UTC", "the time zone has a place of its own"},
		{"TZ=0", "UTC", "the time zone has a place of its own"},
		{"0 0 * * *", "Europe/Berlni", `time zone "Europe/Berlni" is not one that is known`},
		{"0 0 * * *", "Local", `time zone "Local"`},
		{"0 0 * * *", "", `time zone ""`},
	} {
		_, err := schedule.Parse(test.cron, test.zone)
		require.ErrorIs(t, err, schedule.ErrInvalid, test.cron)
		require.ErrorContains(t, err, test.says, test.cron)
	}
	require.True(t, schedule.Cron{}.Next(time.Now()).IsZero())
}

// What runs every so many minutes is due whenever the clock shows such a minute, whatever the zone does.
func TestNext_GoesOnEvenly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"}).Draw(t, "zone")
		step := rapid.SampledFrom([]int{5, 10, 15, 20, 30}).Draw(t, "step")
		c := parse(t, map[int]string{5: "*/5", 10: "*/10", 15: "*/15", 20: "*/20", 30: "*/30"}[step]+" * * * *", zone)
		location, err := time.LoadLocation(zone)
		require.NoError(t, err)
		now := time.Unix(rapid.Int64Range(1_262_304_000, 1_900_000_000).Draw(t, "now"), 0)
		want := now.Truncate(time.Minute).Add(time.Minute)
		for want.In(location).Minute()%step != 0 {
			want = want.Add(time.Minute)
		}
		require.Equal(t, want.Unix(), c.Next(now).Unix(), "after %s", now.In(location))
	})
}

// A time of day comes once on each day, also on those that are shorter or longer.
func TestNext_OnceADay(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "America/New_York"} {
		c := parse(t, "30 2 * * *", zone)
		location, err := time.LoadLocation(zone)
		require.NoError(t, err)
		now := time.Date(2010, 1, 1, 0, 0, 0, 0, location)
		for day := range 5000 {
			now = c.Next(now)
			require.Equal(t, time.Date(2010, 1, 1+day, 12, 0, 0, 0, location).Format(time.DateOnly), now.Format(time.DateOnly))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * *", "0 0 29 2 MON", "@every 1h", "@daily", "1-5/2,7 */3 ? JAN-MAR *", ", * * * *", "TZ= "} {
		f.Add(seed)
	}
	now := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression string) {
		c, err := schedule.Parse(expression, "Europe/Berlin")
		if err != nil {
			require.ErrorIs(t, err, schedule.ErrInvalid)
			return
		}
		if next := c.Next(now); !next.IsZero() {
			require.True(t, next.After(now))
		}
	})
}
