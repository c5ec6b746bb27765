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
		r.taken, r.seen = now, r.version // written with the fleet's row
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
	r.topology, r.version, r.taken, r.seen, r.told = next, version, now, 0, true
	return nil
}

const leeway = 100 * time.Millisecond
