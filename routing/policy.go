package routing

import (
	"slices"
	"strings"
	"time"
)

// Strategy is how the work of a queue spreads over its workers.
type Strategy string

// The strategies.
const (
	// LeastLoaded gives work to the worker with the lowest running ÷ ceiling. The default.
	LeastLoaded Strategy = "least_loaded"
	// RoundRobin gives each worker its turn.
	RoundRobin Strategy = "round_robin"
)

// Policy is what one sidecar has to obey: the queues it serves and the limits
// that hold for the whole fleet. Every sidecar reads it again when it is told that
// something changed, or learns so by its heartbeat.
type Policy struct {
	// Queues are those this worker serves, sorted by name.
	Queues []QueuePolicy
	// Kinds are those with a limit or a timed pause, sorted by name.
	Kinds []KindPolicy
	// Ageing is how long a task waits for each step of priority before it is
	// claimed ahead of younger tasks of a higher one. 0: never.
	Ageing time.Duration
	// BusyPolls is how often a second a busy queue is looked at, by all of its
	// workers together.
	BusyPolls float64
	// Workers are those that live in the fleet, as the leader saw it last.
	Workers int
	// Led: a leader was at work, so that assignments say who serves what. Without
	// one everybody serves what its labels match.
	Led bool
	// Version is the leader's count of changes when it was read.
	Version int64
	// ReadAt is when it was asked for.
	ReadAt time.Time
}

// Queue returns the policy of the queue of that name, if the worker serves it.
func (p *Policy) Queue(name string) (*QueuePolicy, bool) {
	i, found := slices.BinarySearchFunc(p.Queues, name, func(q QueuePolicy, name string) int { return strings.Compare(q.Name, name) })
	if !found {
		return nil, false
	}
	return &p.Queues[i], true
}

// Kind returns what holds for the kind, if anything does.
func (p *Policy) Kind(kind string) (*KindPolicy, bool) {
	i, found := slices.BinarySearchFunc(p.Kinds, kind, func(k KindPolicy, kind string) int { return strings.Compare(k.Kind, kind) })
	if !found {
		return nil, false
	}
	return &p.Kinds[i], true
}

// Names returns the names of the queues that the worker serves, sorted.
func (p *Policy) Names() []string {
	names := make([]string, len(p.Queues))
	for i := range p.Queues {
		names[i] = p.Queues[i].Name
	}
	return names
}

// QueuePolicy is what holds for one queue.
type QueuePolicy struct {
	Name     string
	Base     string // as it was named when enqueueing
	Strategy Strategy
	// Weight is this worker's share of WeightTotal. 0 while nobody is assigned:
	// whoever has the labels serves then.
	Weight      int
	WeightTotal int64
	FreeSlots   int // of all its workers, as the leader saw them last
	Workers     int // assigned
	// Polled: nobody is woken for it, since one of its workers polls. The others have
	// to poll as well, or would get nothing of it.
	Polled bool
	Paused bool
	// Limited: a rate or max_running holds, so that claims take from its flow row.
	Limited bool
	// CanaryPercent is the share of its tasks, by id, that canary workers alone
	// claim while there is one; 0 to 100. 0 also while none lives.
	CanaryPercent float64
	// CanaryWorkers are those of its workers that are canaries. -1: the queue knows
	// no canary, and all of its workers are alike.
	CanaryWorkers int
}

// KindPolicy is what holds for one kind.
type KindPolicy struct {
	Kind string
	// Limited: a rate holds, so that claims take from its flow row.
	Limited bool
	// PausedUntil is the end of a timed pause, by this machine's clock; zero: none.
	PausedUntil time.Time
}
