package fleettest

import (
	"maps"
	"time"
)

// Settings are a sidecar's environment.
type Settings map[string]string

// The sidecar's settings (docs/config.md).
const (
	SetDatabase  = "SCHED_DATABASE_URL"
	SetApp       = "SCHED_APP_URL"
	SetAdmin     = "SCHED_ADMIN_ADDR"
	SetHeartbeat = "SCHED_HEARTBEAT_INTERVAL"
	SetFence     = "SCHED_FENCE_AFTER"
	SetEvict     = "SCHED_EVICT_AFTER"
	SetPoll      = "SCHED_POLL_INTERVAL"
	SetSlots     = "SCHED_SLOTS_CEILING"
	SetQueues    = "SCHED_QUEUES"
	SetLabels    = "SCHED_LABELS"
	SetLogFormat = "SCHED_LOG_FORMAT"
)

// The shortened timing: the proportions of what ships, an order of magnitude
// faster. An eviction is still several scheduling hiccups of a busy machine away.
const (
	QuickHeartbeat = 500 * time.Millisecond
	QuickFence     = 6 * time.Second
	QuickEvict     = 8 * time.Second
	QuickPoll      = 200 * time.Millisecond

	// Leaderless is how long a fleet may be without a leader after its leader was
	// killed: River's lease, its election interval and much slack.
	Leaderless = time.Minute
	// Soon is ample time for what should happen at once.
	Soon = time.Minute
)

// Quick is the shortened timing.
func Quick() Settings {
	return Settings{
		SetHeartbeat: QuickHeartbeat.String(),
		SetFence:     QuickFence.String(),
		SetEvict:     QuickEvict.String(),
		SetPoll:      QuickPoll.String(),
	}
}

// Plus returns the settings with others on top.
func (s Settings) Plus(others Settings) Settings {
	all := maps.Clone(s)
	maps.Copy(all, others)
	return all
}
