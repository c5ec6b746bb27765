package fleetfile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// database is a state as Read returns it.
func database() Fleet {
	return Fleet{
		Settings: {{Name: "notify", Values: Values{"value": true}}, {Name: "max_args_bytes", Values: Values{"value": int64(5)}}},
		Queues: {
			{Name: "idle", Protocol: "any", Values: Values{}},
			{Name: "mail", Protocol: "any", Values: Values{"description": "Mail"}},
		},
		Kinds: {
			{Name: "a", Values: Values{"priority": int64(2), "timeout": time.Minute}},
			{Name: "p", Values: Values{"priority": int64(3)}, Pinned: true, By: "ann"},
		},
	}
}

type move struct {
	action Action
	name   string
	fields []FieldChange
}

func moves(changes []Change) []move {
	var list []move
	for _, c := range changes {
		list = append(list, move{c.Action, c.Section.One() + " " + c.Entry.Title(), c.Fields})
	}
	return list
}

func parsed(t *testing.T, text string) Fleet {
	t.Helper()
	fleet, err := Parse("f", []byte(text))
	require.NoError(t, err)
	return fleet
}

func TestDiff(t *testing.T) {
	t.Parallel()
	file := parsed(t, `
settings: {notify: false}
queues: [{name: idle, description: Idle, strategy: round_robin, admission: accept, rate: 2.5}, {name: mail, selector: {x: y}}]
kinds:
  a: {priority: 1, max_attempts: 3}
  p: {priority: 1}
  new: {queue: mail}
`)
	want := []move{
		{Alter, "setting notify", []FieldChange{{"value", true, false}}},
		{Extra, "setting max_args_bytes", []FieldChange{{"value", int64(5), int64(1 << 20)}}},
		{Alter, "queue idle", []FieldChange{{"description", nil, "Idle"}, {"strategy", "least_loaded", "round_robin"}, {"rate", nil, 2.5}}},
		{Add, "queue mail (x=y)", nil},
		{Extra, "queue mail", []FieldChange{{"description", "Mail", nil}}},
		{Alter, "kind a", []FieldChange{{"priority", int64(2), int64(1)}, {"timeout", time.Minute, nil}, {"max_attempts", nil, int64(3)}}},
		{Pinned, "kind p", []FieldChange{{"priority", int64(3), int64(1)}}},
		{Add, "kind new", []FieldChange{{"queue", nil, "mail"}}},
	}
	require.Equal(t, want, moves(Diff(file, database(), false)))
	want[1].action, want[4].action = Remove, Remove
	require.Equal(t, want, moves(Diff(file, database(), true)))
}

func TestDiffLeavesAbsentSectionsAlone(t *testing.T) {
	t.Parallel()
	require.Empty(t, Diff(Fleet{}, database(), true))
	require.Equal(t, []move{
		{Remove, "kind a", []FieldChange{{"priority", int64(2), nil}, {"timeout", time.Minute, nil}}},
		{Pinned, "kind p", []FieldChange{{"priority", int64(3), nil}}},
	}, moves(Diff(parsed(t, "kinds:"), database(), true)))
}

// Queues come into being by use, and settings by migrations: neither is there
// because somebody wants it.
func TestDiffDoesNotPruneWhatNobodyConfigured(t *testing.T) {
	t.Parallel()
	db := database()
	db[Settings] = db[Settings][:1]
	db[Queues] = db[Queues][:1]
	require.Empty(t, Diff(parsed(t, "settings:\nqueues:\n"), db, true))
}

func TestDiffOfAPinnedRowThatAgrees(t *testing.T) {
	t.Parallel()
	require.Empty(t, Diff(parsed(t, "kinds: {p: {priority: 3}, a: {priority: 2, timeout: 60s}}"), database(), true))
}

func TestShow(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		"not set": nil, "plain": "plain", `"two words"`: "two words", `""`: "", "true": true, "7": int64(7), "0.1": 0.1, "1m30s": 90 * time.Second,
		"5m": 5 * time.Minute, "2h": 2 * time.Hour, "10s": 10 * time.Second, "1h0m5s": time.Hour + 5*time.Second, "500µs": 500 * time.Microsecond,
		"20m": 20 * time.Minute, "{}": map[string]string{}, "a=b,c=\"d e\"": map[string]string{"c": "d e", "a": "b"},
	} {
		require.Equal(t, want, Show(v))
	}
}
