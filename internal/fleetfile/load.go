package fleetfile

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// load reads the state of the database.
func load(ctx context.Context, q *dbq.Queries) (Fleet, error) {
	fleet := Fleet{}
	for section, read := range map[Section]func(context.Context, *dbq.Queries) ([]Entry, error){
		Settings: loadSettings, Queues: loadQueues, Kinds: loadKinds, Schedules: loadSchedules,
	} {
		entries, err := read(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", section, err)
		}
		fleet[section] = entries
	}
	return fleet, nil
}

// loadSettings leaves out settings that this program doesn't know: whoever added
// them looks after them.
func loadSettings(ctx context.Context, q *dbq.Queries) ([]Entry, error) {
	rows, err := q.FleetSettings(ctx)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, row := range rows {
		f, known := fieldOf(settingFields(), row.Key)
		if !known {
			continue
		}
		value, err := f.fromJSON(row.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.Key, err)
		}
		entries = append(entries, Entry{Name: row.Key, Values: Values{settingKey: value}, Pinned: row.Pinned, By: row.UpdatedBy, At: row.UpdatedAt})
	}
	return entries, nil
}

// loadQueues leaves out queues whose selector no enqueue could have given.
func loadQueues(ctx context.Context, q *dbq.Queries) ([]Entry, error) {
	rows, err := q.FleetQueues(ctx)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, row := range rows {
		e := Entry{Name: row.Base, Protocol: row.Protocol, Pinned: row.Pinned}
		if json.Unmarshal(row.Selector, &e.Selector) != nil || checkLabels(e.Selector) != "" {
			continue
		}
		if len(e.Selector) == 0 {
			e.Selector = nil
		}
		if e.Values, err = valuesFromJSON(Queues.Fields(), row.Values); err != nil {
			return nil, fmt.Errorf("%s: %w", row.Base, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func loadKinds(ctx context.Context, q *dbq.Queries) ([]Entry, error) {
	rows, err := q.FleetKinds(ctx)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, row := range rows {
		values, err := valuesFromJSON(Kinds.Fields(), row.Values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.Kind, err)
		}
		entries = append(entries, Entry{Name: row.Kind, Values: values, Pinned: row.Pinned, By: row.UpdatedBy, At: row.UpdatedAt})
	}
	return entries, nil
}

func loadSchedules(ctx context.Context, q *dbq.Queries) ([]Entry, error) {
	rows, err := q.FleetSchedules(ctx)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, row := range rows {
		values, err := valuesFromJSON(Schedules.Fields(), row.Values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.Name, err)
		}
		entries = append(entries, Entry{Name: row.Name, Values: values, Pinned: row.Pinned, By: row.UpdatedBy, At: row.UpdatedAt})
	}
	return entries, nil
}

func valuesFromJSON(fields []Field, text []byte) (Values, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	values := Values{}
	for key, part := range raw {
		f, known := fieldOf(fields, key)
		if !known {
			return nil, fmt.Errorf("%s is not a key", key)
		}
		v, err := f.fromJSON(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		values[key] = v
	}
	return values, nil
}
