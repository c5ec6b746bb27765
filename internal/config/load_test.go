package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const secretA, secretB = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"

// load runs Load on the text of a file, variables and flags; any may be empty.
func load(t *testing.T, file string, env, args []string) (*Loaded, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "sched.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		env = append([]string{"SCHED_CONFIG=" + path}, env...)
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	require.NoError(t, fs.Parse(args))

	return Load(Sources{Environ: env, Flags: fs})
}

func TestLoadNothing(t *testing.T) {
	t.Parallel()

	got, err := load(t, "", nil, nil)

	require.NoError(t, err)
	require.Equal(t, DefaultSidecar(), got.Sidecar)
	require.Equal(t, "default", got.Source("slots.ceiling"))
	require.Equal(t, 64, got.Sidecar.Slots.Start(), "no initial slots means the ceiling")
}

func TestLoadPrecedence(t *testing.T) {
	t.Parallel()
	const file = "slots: {ceiling: 10}\nlabels: {zone: a, rack: r1}\nqueues: [default, mail]"

	tests := []struct {
		name    string
		env     []string
		args    []string
		ceiling int
		source  string
		labels  map[string]string
		queues  []string
	}{
		{
			name: "file above defaults", ceiling: 10, source: "sched.yaml:1",
			labels: map[string]string{"zone": "a", "rack": "r1"}, queues: []string{"default", "mail"},
		},
		{
			name: "variables above the file, whole values", ceiling: 20, source: "SCHED_SLOTS_CEILING",
			env:    []string{"SCHED_SLOTS_CEILING=20", "SCHED_LABELS=zone=b, gpu = yes", "SCHED_QUEUES=bulk"},
			labels: map[string]string{"zone": "b", "gpu": "yes"}, queues: []string{"bulk"},
		},
		{
			name: "flags above variables; given again they grow", ceiling: 30, source: "--slots-ceiling",
			env:    []string{"SCHED_SLOTS_CEILING=20", "SCHED_LABELS=zone=b"},
			args:   []string{"--slots-ceiling=30", "--labels", "zone=c", "--labels", "gpu=no", "--queues", "x,y", "--queues=z"},
			labels: map[string]string{"zone": "c", "gpu": "no"}, queues: []string{"x", "y", "z"},
		},
		{
			name: "an empty variable is not set", ceiling: 10, source: "sched.yaml:1",
			env:    []string{"SCHED_SLOTS_CEILING=", "SCHED_LABELS=", "SCHED_QUEUES="},
			labels: map[string]string{"zone": "a", "rack": "r1"}, queues: []string{"default", "mail"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			got, err := load(t, file, tt.env, tt.args)

			require.NoError(t, err)
			require.Equal(t, tt.ceiling, got.Sidecar.Slots.Ceiling)
			require.Equal(t, tt.source, filepath.Base(got.Source("slots.ceiling")))
			require.Equal(t, tt.labels, got.Sidecar.Labels)
			require.Equal(t, tt.queues, got.Sidecar.Queues)
		})
	}
}

func TestLoadDatabaseURL(t *testing.T) {
	t.Parallel()
	secretFile := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(secretFile, []byte("postgres://from/file\n"), 0o600))

	tests := []struct {
		name, file string
		env, args  []string
		want       DSN
	}{
		{name: "none: left to libpq's rules", want: ""},
		{name: "DATABASE_URL", env: []string{"DATABASE_URL=postgres://from/fallback"}, want: "postgres://from/fallback"},
		{
			name: "the file beats DATABASE_URL", file: "database: {url: postgres://from/yaml}",
			env: []string{"DATABASE_URL=postgres://from/fallback"}, want: "postgres://from/yaml",
		},
		{
			name: "SCHED_DATABASE_URL beats both", file: "database: {url: postgres://from/yaml}",
			env: []string{"DATABASE_URL=postgres://from/fallback", "SCHED_DATABASE_URL=postgres://from/env"}, want: "postgres://from/env",
		},
		{name: "a secret's file", env: []string{"SCHED_DATABASE_URL_FILE=" + secretFile}, want: "postgres://from/file"},
		{name: "a flag", env: []string{"SCHED_DATABASE_URL=postgres://from/env"}, args: []string{"--database-url=postgres://from/flag"}, want: "postgres://from/flag"},
		{name: "--dsn is the same flag", args: []string{"--dsn=postgres://from/flag"}, want: "postgres://from/flag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			got, err := load(t, tt.file, tt.env, tt.args)

			require.NoError(t, err)
			require.Equal(t, tt.want, got.Sidecar.Database.URL)
		})
	}
}

// Every key can be set from every source, with the same result.
func TestLoadEveryKey(t *testing.T) {
	t.Parallel()
	const file = `
database: {url: "postgres://u@h/d", pool_max: 7}
app: {protocol: exec, url: "https://app:1", health_path: /up, secrets: [` + secretA + `, ` + secretB + `], send_api: true, listen: "unix:///s", command: [a, "b c"]}
queues: [q1, q2]
kinds: [mail.send, "a/b"]
labels: {topology.kubernetes.io/zone: eu-1}
slots: {initial: 3, ceiling: 9}
default_timeout: 90s
max_response_bytes: 2048
shutdown_grace: 0s
poll_interval: 500ms
heartbeat_interval: 1s
fence_after: 4s
evict_after: 6s
retry: {base: 1s, cap: 2m, jitter: 0.5}
admin: {addr: ":0", expose: true, pprof: true, metrics: false}
console: {enabled: false, token: ` + secretA + `, user: ann, password: ` + secretB + `, river_ui_url: "http://h/"}
log: {level: debug, format: json}
elastic: "on"
tokens: {rate: 10, burst: 20}
`
	want := Sidecar{
		Database:         Database{URL: "postgres://u@h/d", PoolMax: 7},
		App:              App{Protocol: "exec", URL: "https://app:1", HealthPath: "/up", Secrets: []Secret{secretA, secretB}, SendAPI: true, Listen: "unix:///s", Command: []string{"a", "b c"}},
		Queues:           []string{"q1", "q2"},
		Kinds:            []string{"mail.send", "a/b"},
		Labels:           map[string]string{"topology.kubernetes.io/zone": "eu-1"},
		Slots:            Slots{Initial: 3, Ceiling: 9},
		DefaultTimeout:   90 * time.Second,
		MaxResponseBytes: 2048,

		PollInterval:      500 * time.Millisecond,
		HeartbeatInterval: time.Second,
		FenceAfter:        4 * time.Second,
		EvictAfter:        6 * time.Second,

		Retry:   Retry{Base: time.Second, Cap: 2 * time.Minute, Jitter: 0.5},
		Admin:   Admin{Addr: ":0", Expose: true, Pprof: true},
		Console: Console{Token: secretA, User: "ann", Password: secretB, RiverUIURL: "http://h/"},
		Log:     Log{Level: "debug", Format: "json"},

		Elastic: "on",
		Tokens:  Tokens{Rate: 10, Burst: 20},
	}

	fromFile, err := load(t, file, nil, nil)
	require.NoError(t, err)
	require.Equal(t, want, fromFile.Sidecar)

	var env, args []string
	for _, f := range Fields() {
		text := showValue(valueAt(&want, f.Key).Interface())
		if f.Key == "database.url" {
			text = want.Database.URL.Reveal()
		}
		if f.NoFlag {
			text = map[string]string{"app.secrets": secretA + "," + secretB, "console.token": secretA, "console.password": secretB}[f.Key]
			args = append(args, "--log-level=debug") // stands in: there is no such flag
			env = append(env, f.Env()+"="+text)

			continue
		}
		env = append(env, f.Env()+"="+text)
		args = append(args, "--"+f.Flag()+"="+text)
	}

	fromEnv, err := load(t, "", env, nil)
	require.NoError(t, err)
	require.Equal(t, want, fromEnv.Sidecar)

	fromFlags, err := load(t, "", []string{
		"SCHED_APP_SECRETS=" + secretA + "\n" + secretB + "\n", "SCHED_CONSOLE_TOKEN=" + secretA, "SCHED_CONSOLE_PASSWORD=" + secretB,
	}, args)
	require.NoError(t, err)
	require.Equal(t, want, fromFlags.Sidecar)
}

func TestLoadProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		env, args  []string
		want       []string // each a part of one problem
	}{
		{name: "unknown key names the nearest", file: "slots:\n  celing: 5", want: []string{"slots.celing (FILE:2): is not a key; did you mean slots.ceiling?"}},
		{name: "last part of a key", file: "ceiling: 5", want: []string{"ceiling (FILE:1): is not a key; did you mean slots.ceiling?"}},
		{name: "nothing near", file: "zebra: 5", want: []string{"zebra (FILE:1): is not a key; docs/config.md lists them"}},
		{name: "unknown variable", env: []string{"SCHED_SLOT_CEILING=5"}, want: []string{"SCHED_SLOT_CEILING: no such variable is read; did you mean SCHED_SLOTS_CEILING?"}},
		{name: "first part of a variable", env: []string{"SCHED_HEARTBEAT=5s"}, want: []string{"did you mean SCHED_HEARTBEAT_INTERVAL?"}},
		{name: "unknown variable, nothing near", env: []string{"SCHED_ZEBRA=5"}, want: []string{"SCHED_ZEBRA: no such variable is read; unset it"}},
		{name: "number for a duration", file: "shutdown_grace: 30", want: []string{"shutdown_grace = 30 (FILE:1): is a number without a unit; write a duration such as 30s, 30ms or 1m30s"}},
		{name: "number for a duration in a variable", env: []string{"SCHED_SHUTDOWN_GRACE=30"}, want: []string{"shutdown_grace = 30 (SCHED_SHUTDOWN_GRACE): is a number without a unit"}},
		{name: "no duration", args: []string{"--shutdown-grace=soon"}, want: []string{"shutdown_grace = soon (--shutdown-grace): is not a duration"}},
		{name: "text for a number", file: `slots: {ceiling: "5"}`, want: []string{"slots.ceiling = 5 (FILE:1): must be a whole number"}},
		{name: "label that is a number", file: "labels: {version: 1.10}", want: []string{`has for version a value that YAML doesn't take for text: write "1.10" in quotes`}},
		{name: "text for a list", file: "queues: default", want: []string{"queues = default (FILE:1): must be a list: [a, b]"}},
		{name: "value for a section", file: "app: http://x", want: []string{"app (FILE:1): must be a mapping of protocol, url, health_path, secrets, send_api, listen, command, pid_file"}},
		{name: "key given twice", file: "log: {level: info}\nlog: {level: warn}", want: []string{"log.level (FILE:2): is given twice, first at FILE:1; keep one"}},
		{name: "list as document", file: "- a", want: []string{"FILE: must be a mapping of keys"}},
		{name: "two documents", file: "queues: [a]\n---\nkinds: [b]", want: []string{"FILE: has more than one YAML document"}},
		{name: "no YAML", file: "a: [", want: []string{"FILE: is not YAML"}},
		{name: "no such file", env: []string{"SCHED_CONFIG=/no/such.yaml"}, want: []string{"SCHED_CONFIG: can't read the configuration file"}},
		{name: "no such secret file", env: []string{"SCHED_DATABASE_URL_FILE=/no/such"}, want: []string{"database.url (SCHED_DATABASE_URL_FILE): can't read the file"}},
		{
			name: "secret given twice", env: []string{"SCHED_DATABASE_URL_FILE=/x", "SCHED_DATABASE_URL=postgres://h/d"},
			want: []string{"SCHED_DATABASE_URL is set too; unset one of them"},
		},
		{name: "label without value", env: []string{"SCHED_LABELS=zone"}, want: []string{`labels = zone (SCHED_LABELS): "zone" is not key=value`}},
		{
			name: "all at once, from every source", file: "zebra: 1\nretry: {jitter: 3}", env: []string{"SCHED_LOG_LEVEL=loud"}, args: []string{"--slots-ceiling=9000", "--admin-pprof=maybe"},
			want: []string{
				"config: 5 problems", "zebra (FILE:1)", "retry.jitter = 3 (FILE:2): must be 0 to 1", "log.level = loud (SCHED_LOG_LEVEL): must be debug, info, warn or error",
				"slots.ceiling = 9000 (--slots-ceiling): must be 1 to 5000; one sidecar carries", "admin.pprof = maybe (--admin-pprof): must be true or false",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			_, err := load(t, tt.file, tt.env, tt.args)

			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			lines := strings.Split(err.Error(), "\n")
			for i, l := range lines {
				if at := strings.Index(l, "sched.yaml"); at >= 0 {
					start := strings.LastIndexAny(l[:at], "( ") + 1
					lines[i] = strings.ReplaceAll(l, l[start:at]+"sched.yaml", "FILE")
				}
			}
			for _, want := range tt.want {
				require.Contains(t, strings.Join(lines, "\n"), want)
			}
		})
	}
}

func TestLoadIgnoresWhatIsNotMeantForIt(t *testing.T) {
	t.Parallel()

	_, err := load(t, "", []string{
		"SCHED_SERVICE_HOST=10.0.0.1", "SCHED_SERVICE_PORT=80", "SCHED_SERVICE_PORT_HTTP=80", "SCHED_PORT=tcp://10.0.0.1:80",
		"SCHED_PORT_80_TCP=tcp://10.0.0.1:80", "SCHED_SIDECAR_PORT_80_TCP_ADDR=10.0.0.1", "SCHED_TEST_DSN=postgres://h/d", "HOME=/",
	}, nil)

	require.NoError(t, err)
}

func TestLoadEmptyFiles(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"\n", "# nothing\n", "null\n", "labels:\nqueues:\nslots:\n", "slots: {}\n"} {
		got, err := load(t, file, nil, nil)
		require.NoError(t, err, file)
		require.Equal(t, DefaultSidecar(), got.Sidecar, file)
	}
}

func TestLoadAnchors(t *testing.T) {
	t.Parallel()

	got, err := load(t, "queues: &q [a, b]\nkinds: *q", nil, nil)

	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, got.Sidecar.Kinds)
}
