package routing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// snapshot writes a new version of the topology if it changed: at once when a worker
// joined or left, otherwise at the cadence of the fleet's size.
func (r *Router) snapshot(ctx context.Context, now time.Time) error {
	next := r.present.calm(r.topology)
	changes := DiffTopology(r.topology, next)
	atOnce := slices.ContainsFunc(changes, func(c TopologyChange) bool { return c.What != ChangeChange })
	// A turn may come a little early; waiting for the one after would miss the cadence.
	due := now.Sub(r.taken) >= Cadence(len(next))-leeway
	if !atOnce && !due {
		return nil
	}
	if len(changes) == 0 {
		if r.version > 0 {
			if _, err := r.q.TopologySeen(ctx, r.version); err != nil {
				return fmt.Errorf("confirm the topology: %w", err)
			}
		}
		r.taken = now
		return nil
	}
	topology, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("write the topology: %w", err)
	}
	log, err := json.Marshal(changes)
	if err != nil {
		return fmt.Errorf("write the topology: %w", err)
	}
	version, err := r.q.TopologyPut(ctx, dbq.TopologyPutParams{
		Version: r.version + 1, Topology: topology, Reason: snapshotReason(changes), Changes: log,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		r.loaded = false // another leader wrote this version: start over from what it knows
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the topology: %w", err)
	}
	r.topology, r.version, r.taken, r.told = next, version, now, true
	return nil
}

const leeway = 100 * time.Millisecond

// TopologyView is the fleet as it was at a version.
type TopologyView struct {
	Version  int64
	Topology Topology
}

// TopologyVersionAt returns the version that held at a time. It returns
// [ErrNoTopology] when none is known of then.
func (r *Registry) TopologyVersionAt(ctx context.Context, at time.Time) (int64, error) {
	version, err := r.q.TopologyVersionAt(ctx, at)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("%s: %w", at.Format(time.RFC3339Nano), ErrNoTopology)
	}
	if err != nil {
		return 0, fmt.Errorf("read the topology: %w", err)
	}
	return version, nil
}

// TopologyAt returns the topology of a version, or the newest for 0, from the
// snapshots and the change log. It returns [ErrNoTopology] when that is not kept.
func (r *Registry) TopologyAt(ctx context.Context, version int64) (TopologyView, error) {
	snapshots, err := r.q.TopologySnapshots(ctx)
	if err != nil {
		return TopologyView{}, fmt.Errorf("read the topology: %w", err)
	}
	if len(snapshots) == 0 {
		return TopologyView{}, ErrNoTopology
	}
	base := snapshots[0]
	for _, s := range snapshots {
		if version != 0 && s.Version >= version {
			base = s // the oldest that is not older: fewest changes to undo
		}
	}
	if version == 0 {
		version = base.Version
	}
	topology := Topology{}
	if err := json.Unmarshal([]byte(base.Topology), &topology); err != nil {
		return TopologyView{}, fmt.Errorf("read the topology: %w", err)
	}
	rows, err := r.q.TopologyChanges(ctx, dbq.TopologyChangesParams{First: min(version, base.Version) + 1, Last: max(version, base.Version)})
	if err != nil {
		return TopologyView{}, fmt.Errorf("read the topology: %w", err)
	}
	changes := map[int64][]TopologyChange{}
	for _, row := range rows {
		c := TopologyChange{WorkerID: row.WorkerID, What: row.What}
		for _, side := range []struct {
			from []byte
			to   **TopologyEntry
		}{{row.Before, &c.Before}, {row.After, &c.After}} {
			if side.from == nil {
				continue
			}
			if err := json.Unmarshal(side.from, side.to); err != nil {
				return TopologyView{}, fmt.Errorf("read the topology: %w", err)
			}
		}
		changes[row.Version] = append(changes[row.Version], c)
	}
	topology, err = Reconstruct(topology, base.Version, changes, version)
	if err != nil {
		return TopologyView{}, err
	}
	return TopologyView{Version: version, Topology: topology}, nil
}
