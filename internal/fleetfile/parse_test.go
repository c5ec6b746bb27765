package fleetfile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const whole = `
settings:
  notify: false
  max_args_bytes: 65536
queues:
  - name: mail
    description: Mails to customers
  - name: render
    selector: {gpu: a100, zone: "1"}
    protocol: grpc
  - name: mail
    selector: {}
    protocol: http
kinds:
  send_mail:
    description: "two\nlines"
    queue: mail
    priority: 2
    timeout: 1m30s
    max_attempts: 10
    retry_base: 500ms
    retry_factor: 1.5
    retry_cap: 1h
    retry_jitter: 0
  ns/Render:v1+x:
    selector: &gpu {gpu: a100}
    protocol: any
    priority:
  other: {selector: *gpu}
  bare:
`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse("fleet.yaml", []byte(whole))
	require.NoError(t, err)
	for _, entries := range got {
		for i := range entries {
			require.Positive(t, entries[i].line)
			entries[i].line = 0
		}
	}
	gpu := map[string]string{"gpu": "a100"}
	require.Equal(t, Fleet{
		Settings: {{Name: "notify", Values: Values{"value": false}}, {Name: "max_args_bytes", Values: Values{"value": int64(65536)}}},
		Queues: {
			{Name: "mail", Protocol: "any", Values: Values{"description": "Mails to customers"}},
			{Name: "render", Selector: map[string]string{"gpu": "a100", "zone": "1"}, Protocol: "grpc", Values: Values{}},
			{Name: "mail", Protocol: "http", Values: Values{}},
		},
		Kinds: {
			{Name: "send_mail", Values: Values{
				"description": "two\nlines", "queue": "mail", "priority": int64(2), "timeout": 90 * time.Second, "max_attempts": int64(10),
				"retry_base": 500 * time.Millisecond, "retry_factor": 1.5, "retry_cap": time.Hour, "retry_jitter": 0.0,
			}},
			{Name: "ns/Render:v1+x", Values: Values{"selector": gpu, "protocol": "any"}},
			{Name: "other", Values: Values{"selector": gpu}},
			{Name: "bare", Values: Values{}},
		},
	}, got)
}

func TestParseKeepsWhichSectionsAreThere(t *testing.T) {
	t.Parallel()
	got, err := Parse("f", []byte("kinds:\nqueues: []\n"))
	require.NoError(t, err)
	require.Equal(t, Fleet{Kinds: {}, Queues: {}}, got)
}

func TestParseProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "f.yaml: has nothing in it; give it a section: settings, queues, kinds, schedules"},
		{"no YAML", "kinds: [", "f.yaml: is not YAML: line 1: did not find expected node content"},
		{"two documents", "kinds:\n---\nkinds:\n", "f.yaml: has more than one YAML document"},
		{"a list", "- a\n", "f.yaml:1: must be a mapping with the keys settings, queues, kinds, schedules"},
		{"a near section", "\nkind: {}\n", "kind (f.yaml:2): is not a key; did you mean kinds?"},
		{"a section twice", "kinds: {}\nkinds: {}\n", "kinds (f.yaml:2): is given twice, first in line 1; keep one"},
		{"a near key", "kinds:\n  mail:\n    priorty: 1\n", "kinds.mail.priorty (f.yaml:3): is not a key; did you mean priority?"},
		{"a far key", "queues: [{name: a, zebra: 1}]", "queues[0].zebra (f.yaml:1): is not a key; known are name, selector, protocol, description, strategy, admission, max_pending, max_running, rate, burst"},
		{"a near setting", "settings:\n  notfy: true\n", "settings.notfy (f.yaml:2): is not a setting; did you mean notify?"},
		{"a setting without a value", "settings: {notify: }", "settings.notify (f.yaml:1): has no value; give it one, or leave the setting out"},
		{"a setting of the wrong type", "settings: {notify: 'on'}", "settings.notify = on (f.yaml:1): must be true or false"},
		{"a setting out of range", "settings: {max_enqueue_many: 1000001}", "settings.max_enqueue_many = 1000001 (f.yaml:1): must be 1 to 1000000"},
		{"a kind twice", "kinds:\n  a:\n  b:\n  a:\n", "kinds.a (f.yaml:4): is given twice, first in line 2; keep one"},
		{"a kind's name", "kinds:\n  a b:\n", "kinds.a b (f.yaml:2): is not the name of a kind: must be ASCII letters"},
		{"a kind that is text", "kinds: {a: fast}", "kinds.a (f.yaml:1): must be a mapping of description, queue"},
		{"a key twice", "kinds:\n  a:\n    priority: 1\n    priority: 2\n", "kinds.a.priority (f.yaml:4): is given twice"},
		{"priority", "kinds: {a: {priority: 5}}", "kinds.a.priority = 5 (f.yaml:1): must be 1 to 4"},
		{"text for a number", "kinds: {a: {priority: '1'}}", "kinds.a.priority = 1 (f.yaml:1): must be a whole number"},
		{"a number for text", "kinds: {a: {description: 5}}", `kinds.a.description = 5 (f.yaml:1): must be text: write "5" in quotes`},
		{"queue", "kinds: {a: {queue: A}}", "kinds.a.queue = A (f.yaml:1): must be lower-case letters"},
		{"protocol", "kinds: {a: {protocol: HTTP}}", "kinds.a.protocol = HTTP (f.yaml:1): must be any, http, grpc, exec"},
		{"a unit", "kinds: {a: {timeout: 30}}", "kinds.a.timeout = 30 (f.yaml:1): is a number without a unit; write a duration such as 30s"},
		{"no duration", "kinds: {a: {timeout: soon}}", "is not a duration"},
		{"too long", "kinds: {a: {timeout: 169h}}", "kinds.a.timeout = 169h (f.yaml:1): must be 1µs to 168h"},
		{"too fine", "kinds: {a: {timeout: 1500ns}}", "must be in whole microseconds"},
		{"cap below base", "kinds: {a: {retry_base: 2s, retry_cap: 1s}}", "kinds.a.retry_cap = 1s (f.yaml:1): is below retry_base, 2s; raise it, or lower the base"},
		{"jitter", "kinds: {a: {retry_jitter: 1}}", "must be 0 to under 1"},
		{"jitter that rounds to one", "kinds: {a: {retry_jitter: 0.999999999}}", "must be 0 to under 1"},
		{"rate", "queues: [{name: a, rate: 0}]", "queues[0].rate = 0 (f.yaml:1): must be 0.001 to 1000000"},
		{"a share", "settings: {load_red: 1.1}", "settings.load_red = 1.1 (f.yaml:1): must be 0.01 to 1"},
		{"NaN", "kinds: {a: {retry_factor: .nan}}", "must be a number"},
		{"labels", "kinds: {a: {selector: gpu}}", "kinds.a.selector = gpu (f.yaml:1): must be a mapping: {zone: a}"},
		{"a label's value", "kinds: {a: {selector: {zone: 1}}}", `has for zone a value that must be text: write "1" in quotes`},
		{"a label's name", "kinds: {a: {selector: {'': x}}}", `has the name ""`},
		{"a queue without a name", "queues:\n  - description: x\n", "queues[0].name (f.yaml:2): is missing; every queue needs one"},
		{"a queue that is a name", "queues: [mail]", "queues[0] (f.yaml:1): must be a mapping with a name"},
		{"a queue twice", "queues:\n  - {name: a, selector: {x: y, z: w}}\n  - {name: a, selector: {z: w, x: y}, protocol: any}\n", "queues[1] (f.yaml:3): is queue a (x=y,z=w) again, first in line 2; keep one"},
		{"a cron", "schedules:\n  a:\n    kind: b\n    cron: 99 * * * *\n", `schedules.a.cron = "99 * * * *" (f.yaml:4): says nothing: cron "99 * * * *": end of range`},
		{"a time zone", "schedules:\n  a:\n    kind: b\n    cron: 9 * * * *\n    timezone: Mars/Base\n", `schedules.a.timezone = Mars/Base (f.yaml:5): says nothing: time zone "Mars/Base" is not one that is known`},
		{"queues as a mapping", "queues: {a: }", "queues (f.yaml:1): must be a list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse("f.yaml", []byte(tt.text))
			require.Nil(t, got)
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Len(t, invalid.Problems, 1, err)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestParseReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.yaml", []byte("kinds:\n  a: {priority: 9, timeout: 1}\nqueues: [{nam: x}]\nzebra: 1\n"))
	require.EqualError(t, err, `5 problems
  kinds.a.priority = 9 (f.yaml:2): must be 1 to 4
  kinds.a.timeout = 1 (f.yaml:2): is a number without a unit; write a duration such as 1s, 1ms or 1m30s
  queues[0].nam (f.yaml:3): is not a key; did you mean name?
  queues[0].name (f.yaml:3): is missing; every queue needs one
  zebra (f.yaml:4): is not a key; known are settings, queues, kinds, schedules`)
}

// Nothing that anybody writes may make the parser fall over.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("kinds: &a\n  b: *a\n")
	f.Add("kinds:\n  a: {selector: {? [x] : y}}\n? [q]\n: 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		fleet, err := Parse("f", []byte(text))
		if err != nil {
			return
		}
		written, err := Export(fleet)
		require.NoError(t, err)
		again, err := Parse("f", written)
		require.NoError(t, err, "%s", written)
		require.Empty(t, Diff(again, fleet, true))
	})
}
