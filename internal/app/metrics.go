package app

import (
	"context"
	"fmt"
	"runtime"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sched-sidecar/sched/internal/config"
)

// newRegistry returns the process' one registry, with what the process itself and its
// pool show.
func newRegistry(version string, pool *pgxpool.Pool) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerProcess(registry, version, pool)
	return registry
}

func registerProcess(registerer prometheus.Registerer, version string, pool *pgxpool.Pool) {
	registerer.MustRegister(buildInfo(version), newPoolCollector(pool))
}

// RegisterMetrics registers all metrics of a sidecar that has everything, but those of
// Go and of the process, as a sidecar does at its start. Nothing is started, and no
// database is asked: it is for what describes metrics.
func RegisterMetrics(ctx context.Context, registerer prometheus.Registerer, opts Options) error {
	cfg := config.DefaultSidecar()
	cfg.Elastic = config.ElasticOn
	pool, err := pgxpool.New(ctx, "host=localhost")
	if err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	defer pool.Close()
	link, err := newLink(ctx, cfg, opts)
	if err != nil {
		return err
	}
	defer link.close()
	registerProcess(registerer, opts.Version, pool)
	_, err = newParts(cfg, opts, pool, link, registerer)
	return err
}

// measured is where a sidecar's parts register their metrics; nil: they have none.
func measured(cfg config.Sidecar, registry *prometheus.Registry) prometheus.Registerer {
	if !cfg.Admin.Metrics {
		return nil
	}
	return registry
}

// gathered is what /metrics shows; nil: there is no such page.
func gathered(cfg config.Sidecar, registry *prometheus.Registry) prometheus.Gatherer {
	if !cfg.Admin.Metrics {
		return nil
	}
	return registry
}

// orUnread stands in for a registerer that there isn't.
func orUnread(registerer prometheus.Registerer) prometheus.Registerer {
	if registerer == nil {
		return prometheus.NewRegistry()
	}
	return registerer
}

func buildInfo(version string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "sched", Name: "build_info", Help: "Always 1; the version of this sidecar, and of the Go that it was built with.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	info.Set(1)
	return info
}

// poolCollector shows the pool of connections to Postgres, as of one moment.
type poolCollector struct {
	pool                                  *pgxpool.Pool
	connections, most                     *prometheus.Desc
	acquires, emptyAcquires, cancelled    *prometheus.Desc
	waited, opened, closedIdle, closedOld *prometheus.Desc
}

func newPoolCollector(pool *pgxpool.Pool) *poolCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sched_postgres_pool_"+name, help, labels, nil)
	}
	return &poolCollector{
		pool:          pool,
		connections:   desc("connections", "Connections to Postgres by state: acquired (in use), idle, constructing.", "state"),
		most:          desc("connections_max", "Most connections that the pool opens (database.pool_max)."),
		acquires:      desc("acquires_total", "Times a connection was taken from the pool."),
		emptyAcquires: desc("empty_acquires_total", "Times somebody had to wait because none was idle."),
		cancelled:     desc("cancelled_acquires_total", "Times the wait for a connection was given up."),
		waited:        desc("acquire_seconds_total", "Time spent waiting for connections."),
		opened:        desc("opened_total", "Connections opened."),
		closedIdle:    desc("closed_idle_total", "Connections closed because they were idle for long."),
		closedOld:     desc("closed_old_total", "Connections closed because of their age."),
	}
}

// Describe implements [prometheus.Collector].
func (c *poolCollector) Describe(descs chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, descs)
}

// Collect implements [prometheus.Collector].
func (c *poolCollector) Collect(metrics chan<- prometheus.Metric) {
	stat := c.pool.Stat()
	put := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	put(c.connections, prometheus.GaugeValue, float64(stat.AcquiredConns()), "acquired")
	put(c.connections, prometheus.GaugeValue, float64(stat.IdleConns()), "idle")
	put(c.connections, prometheus.GaugeValue, float64(stat.ConstructingConns()), "constructing")
	put(c.most, prometheus.GaugeValue, float64(stat.MaxConns()))
	put(c.acquires, prometheus.CounterValue, float64(stat.AcquireCount()))
	put(c.emptyAcquires, prometheus.CounterValue, float64(stat.EmptyAcquireCount()))
	put(c.cancelled, prometheus.CounterValue, float64(stat.CanceledAcquireCount()))
	put(c.waited, prometheus.CounterValue, stat.AcquireDuration().Seconds())
	put(c.opened, prometheus.CounterValue, float64(stat.NewConnsCount()))
	put(c.closedIdle, prometheus.CounterValue, float64(stat.MaxIdleDestroyCount()))
	put(c.closedOld, prometheus.CounterValue, float64(stat.MaxLifetimeDestroyCount()))
}
