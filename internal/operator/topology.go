package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// topologyChannel is where the leader tells that assignments or the topology changed.
const topologyChannel = "sched.topology"

// Topology is the fleet as it was at a version.
type Topology struct {
	Version int64                      `json:"version"`
	Since   *time.Time                 `json:"since"`  // when it became so; nil: not known any more
	SHA256  string                     `json:"sha256"` // of the text that the leader wrote; empty for versions that are reconstructed
	Reason  string                     `json:"reason"` // join, leave or change; empty as SHA256
	Workers map[string]json.RawMessage `json:"workers"`
}

// TopologyChange is how a worker's entry changed.
type TopologyChange struct {
	Version  int64           `json:"version"` // that it led to
	At       time.Time       `json:"at"`
	WorkerID string          `json:"worker_id"`
	What     string          `json:"what"`   // join, leave or change
	Before   json.RawMessage `json:"before"` // null: it joined
	After    json.RawMessage `json:"after"`  // null: it left
}

// Moment is a version of the topology, or a time; nothing set is now.
type Moment struct {
	Version int64
	Time    time.Time
}

// Topology returns the fleet as it was: the nearest whole snapshot, led to the
// version by the change log. [ErrNotFound]: it is not known, since the log does not
// go back so far or the version does not exist yet.
func (o *Operator) Topology(ctx context.Context, at Moment) (Topology, error) {
	var topology Topology
	err := o.readExact(ctx, "reading the topology", func(q *dbq.Queries) (err error) {
		topology, err = topologyAt(ctx, q, at)
		return err
	})
	return topology, err
}

// TopologyDiff returns both, and what changed from the first to the second.
func (o *Operator) TopologyDiff(ctx context.Context, from, to Moment) (a, b Topology, changes []TopologyChange, err error) {
	err = o.readExact(ctx, "reading the topology", func(q *dbq.Queries) (err error) {
		if a, err = topologyAt(ctx, q, from); err != nil {
			return err
		}
		b, err = topologyAt(ctx, q, to)
		return err
	})
	return a, b, diffTopology(a, b), err
}

// FollowTopology reports each change behind a version, as it is told, until ctx
// ends, whose error it returns.
func (o *Operator) FollowTopology(ctx context.Context, version int64, report func(TopologyChange) error) error {
	if _, err := o.conn.Exec(ctx, "LISTEN "+pgx.Identifier{topologyChannel}.Sanitize()); err != nil {
		return translate("listening", err)
	}
	for {
		newest, err := o.q.TopologyNewest(ctx)
		if err != nil {
			return translate("reading the topology", err)
		}
		if newest > version {
			rows, err := o.q.TopologyLog(ctx, dbq.TopologyLogParams{AfterVersion: version, Version: newest})
			if err != nil {
				return translate("reading the topology", err)
			}
			for _, row := range rows {
				if err := report(changeOf(row)); err != nil {
					return err
				}
			}
			version = newest
		}
		if _, err := o.conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("waiting for changes: %w", err)
		}
	}
}

// readExact is read, without making ErrNotFound of what has a better text.
func (o *Operator) readExact(ctx context.Context, what string, query func(*dbq.Queries) error) error {
	var own error
	err := o.read(ctx, what, func(q *dbq.Queries) error {
		err := query(q)
		if errors.Is(err, ErrNotFound) {
			own = err
			return nil
		}
		return err
	})
	return errors.Join(own, err)
}

func topologyAt(ctx context.Context, q *dbq.Queries, at Moment) (Topology, error) {
	newest, err := q.TopologyNewest(ctx)
	if err != nil {
		return Topology{}, err
	}
	version := at.Version
	switch {
	case !at.Time.IsZero():
		if version, err = versionAt(ctx, q, at.Time); err != nil {
			return Topology{}, err
		}
	case version == 0:
		version = newest
	case version < 0 || version > newest:
		return Topology{}, fmt.Errorf("topology %d: %w; the newest is %d", version, ErrNotFound, newest)
	}
	return reconstruct(ctx, q, version)
}

func versionAt(ctx context.Context, q *dbq.Queries, moment time.Time) (int64, error) {
	version, err := q.TopologyLastChange(ctx, moment)
	if !errors.Is(err, pgx.ErrNoRows) {
		return version, err
	}
	before, err := q.TopologyVersionBefore(ctx, moment)
	if err == nil && !before.Held {
		err = fmt.Errorf("the topology of %s: %w; what changed then is not kept any more (setting topology_keep_days)", moment.Format(time.RFC3339), ErrNotFound)
	}
	return before.Version, err
}

// reconstruct leads the nearest snapshot to a version. Version 0 is the fleet
// before anybody joined.
func reconstruct(ctx context.Context, q *dbq.Queries, version int64) (Topology, error) {
	topology := Topology{Version: version, Workers: map[string]json.RawMessage{}}
	nearest, err := q.TopologyNearest(ctx, version)
	if errors.Is(err, pgx.ErrNoRows) {
		return topology, nil // nothing has led yet
	}
	if err != nil {
		return topology, err
	}
	if err := json.Unmarshal([]byte(nearest.Topology), &topology.Workers); err != nil {
		return topology, fmt.Errorf("topology %d: %w", nearest.Version, err)
	}
	low, high := min(version, nearest.Version), max(version, nearest.Version)
	log, err := q.TopologyLog(ctx, dbq.TopologyLogParams{AfterVersion: low, Version: high})
	if err != nil {
		return topology, err
	}
	if lead(topology.Workers, log, version < nearest.Version) != high-low {
		return topology, fmt.Errorf("topology %d: %w; what changed then is not kept any more (setting topology_keep_days)", version, ErrNotFound)
	}
	head, err := q.TopologyHead(ctx, version)
	if err != nil {
		return topology, err
	}
	if head.Since.Unix() != 0 {
		topology.Since = &head.Since
	}
	topology.SHA256, topology.Reason = head.Sha256, head.Reason
	return topology, nil
}

// lead applies a log to workers, or takes it back, and returns of how many versions
// it was. No version is without a change.
func lead(workers map[string]json.RawMessage, log []dbq.TopologyLogRow, back bool) int64 {
	if back {
		slices.Reverse(log)
	}
	versions := map[int64]bool{}
	for _, row := range log {
		versions[row.Version] = true
		entry := row.After
		if back {
			entry = row.Before
		}
		if entry == "" {
			delete(workers, row.WorkerID)
		} else {
			workers[row.WorkerID] = json.RawMessage(entry)
		}
	}
	return int64(len(versions))
}

func changeOf(row dbq.TopologyLogRow) TopologyChange {
	return TopologyChange{Version: row.Version, At: row.At, WorkerID: row.WorkerID, What: row.What, Before: rawOrNull(row.Before), After: rawOrNull(row.After)}
}

func rawOrNull(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

// diffTopology says what leads from a to b, by worker.
func diffTopology(a, b Topology) []TopologyChange {
	var changes []TopologyChange
	ids := slices.AppendSeq(slices.Collect(maps.Keys(a.Workers)), maps.Keys(b.Workers))
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		before, was := a.Workers[id]
		after, is := b.Workers[id]
		c := TopologyChange{Version: b.Version, WorkerID: id, What: "change", Before: before, After: after}
		switch {
		case !was:
			c.What, c.Before = "join", rawOrNull("")
		case !is:
			c.What, c.After = "leave", rawOrNull("")
		case bytes.Equal(before, after): // both as the database writes them
			continue
		}
		if b.Since != nil {
			c.At = *b.Since
		}
		changes = append(changes, c)
	}
	return changes
}
