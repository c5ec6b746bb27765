package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestRedactDSN(t *testing.T) {
	t.Parallel()
	tests := []struct{ dsn, want string }{
		{"", ""},
		{"postgres://h/d", "postgres://h/d"},
		{"postgres://u@h:5432/d?sslmode=disable", "postgres://u@h:5432/d?sslmode=disable"},
		{"postgres://u:hunter2@h:5432/d", "postgres://u:xxxxx@h:5432/d"},
		{"postgresql://u:hunter2@h1:1,h2:2/d", "postgresql://u:xxxxx@h1:1,h2:2/d"},
		{"postgres://u@[::1]:5432/d", "postgres://u@[::1]:5432/d"},
		{"postgres://[::1]:5432/d", "postgres://[::1]:5432/d"},
		{"postgres://u:hunt/er?2#a@b@h/d", "postgres://u:xxxxx@h/d"},
		{"postgres://h/d?password=hunter2&user=u", "postgres://h/d?password=xxxxx&user=u"},
		{"postgres://h/d?user=u&pass%77ord=hunter2", "postgres://h/d?user=u&pass%77ord=xxxxx"},
		{"postgres://u:1@h/d?application_name=a@b&sslpassword=hunter2", "postgres://u:xxxxx@b&sslpassword=xxxxx"},
		{"postgres://u:hunter2", "postgres://u:xxxxx"},
		{"postgres://u:hun/ter2", "postgres://u:xxxxx"},
		{"host=h user=u", "host=h user=u"},
		{"host=h password=hunter2 user=u", "host=h password=xxxxx user=u"},
		{"password = hunter2", "password=xxxxx"},
		{`password='hun\'ter 2' host=h`, "password=xxxxx host=h"},
		{`password=hun\ ter2 host=h`, "password=xxxxx host=h"},
		{`PASSWORD=hunter2`, "PASSWORD=xxxxx"},
		{`host=h password='hunter2`, "xxxxx"},
		{`host=h hunter2`, "xxxxx"},
		{`hunter2`, "xxxxx"},
		{`u:hunter2@h`, "xxxxx"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, RedactDSN(tt.dsn), tt.dsn)
		require.Equal(t, tt.want, RedactDSN(tt.want), "redacting twice changes nothing")
	}
}

// Whatever stands in a password, in any form, and whether the driver takes the
// string or not: none of it is shown.
func FuzzRedactDSN(f *testing.F) {
	for _, middle := range []string{"", "/", "@", "a@b/c?d#e", "?password=x", "'", `\`, `\'`, " host=h ", "%", "%40", "&user=u", "\x00", "ü", ":", "=", "' x='"} {
		f.Add(middle)
	}
	f.Fuzz(func(t *testing.T, middle string) {
		const mark = "SeCrEt"
		password := mark + middle + mark
		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
		dsns := []string{
			"postgres://u:" + password + "@h:5432/d?sslmode=disable",
			"postgresql://u:" + url.QueryEscape(password) + "@h/d",
			"postgres://u@h/d?password=" + url.QueryEscape(password) + "&user=v",
			"host=h password='" + quoted + "' user=u",
		}
		if !strings.ContainsAny(middle, " \t\n\r\f\v") {
			dsns = append(dsns, "host=h password="+strings.ReplaceAll(password, `\`, `\\`)+" user=u")
		}
		for _, dsn := range dsns {
			require.NotContains(t, RedactDSN(dsn), mark, "from %q", dsn)
		}
	})
}

// What the driver takes for the password is gone from any string it accepts.
func FuzzRedactDSNAgainstDriver(f *testing.F) {
	for _, dsn := range []string{"postgres://u:p@h/d", "host=h password=p", "password='a b'", "postgres://h?password=x&password=y", "postgres://u:a@b:c@h"} {
		f.Add(dsn)
	}
	f.Setenv("PGPASSWORD", "") // what the surroundings know isn't of the string
	f.Setenv("PGPASSFILE", "none")
	f.Fuzz(func(t *testing.T, dsn string) {
		with, err := pgconn.ParseConfig(dsn)
		if err != nil {
			return
		}
		without, err := pgconn.ParseConfig(RedactDSN(dsn))
		if err != nil || with.Password == "" {
			return
		}
		require.Contains(t, []string{"", redacted}, without.Password, "from %q", dsn)
	})
}

// The driver's error for a wrong connection string may quote it: ours must not.
func FuzzValidateHidesPassword(f *testing.F) {
	for _, tail := range []string{"", ":port/d", "?sslmode=x", "?sslmode=x@", " port=x", "%zz", "'", " sslmode=x"} {
		f.Add(tail)
	}
	f.Fuzz(func(t *testing.T, tail string) {
		const mark = "SeCrEt"
		for _, before := range []string{"postgres://u:" + mark + "@h", "postgres://u@h/d?password=" + mark + "&x=", "host=h password=" + mark + " ", "host=h password='" + mark + "' "} {
			c := DefaultSidecar()
			c.Database.URL = DSN(before + tail)
			if err := c.Validate(); err != nil {
				require.NotContains(t, err.Error(), mark, "from %q", before+tail)
			}
		}
	})
}

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	c := DefaultSidecar()
	c.Database.URL = "postgres://u:hunter2@h/d"
	c.App.Secrets = []Secret{"whsec_hunter2"}

	asJSON, err := json.Marshal(c)
	require.NoError(t, err)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("config", "config", c, "dsn", c.Database.URL, "secret", c.App.Secrets[0])
	slog.New(slog.NewTextHandler(&log, nil)).Info("config", "config", c, "dsn", c.Database.URL, "secrets", c.App.Secrets)

	for _, shown := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%s %q", c.Database.URL, c.App.Secrets), string(asJSON), log.String()} {
		require.NotContains(t, shown, "hunter2")
		require.Contains(t, shown, redacted)
	}
	require.Equal(t, "postgres://u:hunter2@h/d", c.Database.URL.Reveal())
}
