package governor

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// poolNameMax bounds the name of a worker pool.
const poolNameMax = 100

// gauges read the state that there is.
func gauges(g *Governor) []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "sched", Name: name, Help: help}, read)
	}
	return append([]prometheus.Collector{
		gauge("slots", "Tasks that may run at once now.", func() float64 { _, limit := g.slots.counts(); return float64(limit) }),
		gauge("slots_ceiling", "Tasks that may run at once at most: as configured, or fewer where the app holds no more at once.", func() float64 { return float64(g.ceiling()) }),
		gauge("tasks_running", "Tasks that hold a slot: being dispatched or settled.", func() float64 { return float64(g.running.count()) }),
		gauge("claims_held", "Reasons in force for claiming nothing (/readyz and /status name them).", func() float64 { return float64(len(g.holds.names())) }),
		gauge("kinds_skipped", "Kinds that are not claimed now because the app lacks them.", func() float64 { return float64(len(g.skips.list())) }),
		gauge("tokens", "Tasks that the token bucket lets through now; -1 when it is off.", func() float64 {
			if g.tokens.limiter == nil {
				return -1
			}
			return g.tokens.limiter.Tokens()
		}),
		gauge("tokens_wait_seconds", "Time until the token bucket lets the next task through.", func() float64 {
			return g.tokens.wait(time.Now(), 1).Seconds()
		}),
		gauge("lanes", "Places in queues that are remembered, since tasks are left out there or dead rows lie before them.", func() float64 { return float64(g.laneCount.Load()) }),
		gauge("app_load_percent", "Load of the app, 0 to 100, that claims and weights go by: its own report, or the higher one of its cpu and memory, of which memory, and cpu with elastic on, count for 85 at most; 0 when it isn't known.", func() float64 { return g.load().LoadPercent }),
		gauge("app_cpu_ratio", "What the app uses of the cpu it may use, 0 to 1.", func() float64 { return g.load().CPU }),
		gauge("app_memory_ratio", "What the app uses of the memory it may use, 0 to 1.", func() float64 { return g.load().Mem }),
	}, contactGauges(g, gauge)...)
}

// contactGauges say what this sidecar hears and knows of the fleet.
func contactGauges(g *Governor, gauge func(name, help string, read func() float64) prometheus.Collector) []prometheus.Collector {
	return []prometheus.Collector{
		gauge("listening", "1 while notifications arrive; 0 while this sidecar only polls.", func() float64 {
			if g.listening.Load() {
				return 1
			}
			return 0
		}),
		gauge("queues_busy", "Queues that this sidecar polls for by itself, because they are busy.", func() float64 {
			busy, _ := g.poller.duty(time.Now())
			return float64(len(busy))
		}),
		gauge("queues_served", "Queues that this sidecar claims from.", func() float64 { return float64(len(g.policy.Load().Queues)) }),
		gauge("policy_age_seconds", "Time since the policy in force was read: queues, assignments, limits.", func() float64 {
			if at := g.policy.Load().ReadAt; !at.IsZero() {
				return time.Since(at).Seconds()
			}
			return 0
		}),
	}
}

// workerPool shows what this sidecar's slots do, at one moment: the three states add
// up to the slots, or to what runs where that is more.
type workerPool struct {
	governor *Governor
	name     string
	desc     *prometheus.Desc
}

func newWorkerPool(g *Governor) *workerPool {
	return &workerPool{governor: g, name: poolName(g.config.Queues), desc: prometheus.NewDesc("sched_worker_pool_workers_active",
		"Slots by what they do: running (a task holds it), idle (free for a task), blocked (free, and nothing may be claimed now: the sidecar is held, has no tokens or serves no queue). pool_name is the queues that the sidecar is narrowed to, or all.",
		[]string{"pool_name", "state"}, nil)}
}

// poolName names a sidecar's group of queues.
func poolName(queues []string) string {
	if len(queues) == 0 {
		return "all"
	}
	name := strings.Join(slices.Sorted(slices.Values(queues)), ",")
	return name[:min(len(name), poolNameMax)]
}

// Describe implements [prometheus.Collector].
func (p *workerPool) Describe(descs chan<- *prometheus.Desc) { descs <- p.desc }

// Collect implements [prometheus.Collector].
func (p *workerPool) Collect(metrics chan<- prometheus.Metric) {
	g := p.governor
	_, limit := g.slots.counts()
	running := g.running.count()
	idle, blocked := max(0, limit-running), 0
	if g.holds.any() || len(g.policy.Load().Queues) == 0 || g.tokens.available(time.Now()) < 1 {
		idle, blocked = 0, idle
	}
	for _, state := range []struct {
		name  string
		slots int
	}{{"running", running}, {"idle", idle}, {"blocked", blocked}} {
		metrics <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(state.slots), p.name, state.name)
	}
}
