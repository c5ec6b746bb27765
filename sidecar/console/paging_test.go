package console_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// next is where the link to the next page leads; empty: there is none.
func (a answer) next() string {
	for _, each := range a.all("a") {
		if attr(each, "rel") == "next" {
			return attr(each, "href")
		}
	}
	return ""
}

// rows are the links to things in a table, in order.
func (a answer) rows(prefix string) []string {
	var found []string
	for _, body := range a.all("tbody") {
		for node := range body.Descendants() {
			if name, ok := strings.CutPrefix(attr(node, "href"), prefix); ok {
				found = append(found, name)
			}
		}
	}
	return found
}

// walk goes from page to page, and returns what it met.
func (b *bundle) walk(path, query, prefix string) (met []string) {
	b.t.Helper()
	for pages := 0; ; pages++ {
		require.Less(b.t, pages, 30, "it ends")
		a := b.page(path + query)
		met = append(met, a.rows(prefix)...)
		if query = a.next(); query == "" {
			return met
		}
	}
}

func distinct(names []string) int {
	seen := map[string]bool{}
	for _, name := range names {
		seen[name] = true
	}
	return len(seen)
}

// Every list goes on to its end, and shows each task once: many of them at the same time.
func TestTasksAreListedToTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO sched.river_job (kind, args, queue, priority, attempt, state, scheduled_at, attempted_at, finalized_at, attempted_by, metadata)
		SELECT 'k', '{}', (ARRAY['a', 'b|c.d'])[1 + g % 2], 1 + g % 4, 1, s.state::sched.river_job_state, now() + (g / 30) * interval '1 hour',
			CASE WHEN s.state <> 'pending' THEN now() - (g / 30) * interval '1 hour' END,
			CASE WHEN s.state IN ('completed', 'discarded', 'cancelled') THEN now() - (g / 30) * interval '1 minute' END, '{w-one}', '{"sched:batch": "night"}'
		FROM generate_series(1, 120) AS g CROSS JOIN unnest('{available,running,scheduled,retryable,pending,completed,discarded,cancelled}'::text[]) AS s (state)`)
	b.exec(`SELECT sched.archive_tasks('cancelled', now() + interval '1 minute', 70)`)
	for _, query := range []string{
		"available", "running", "scheduled", "retryable", "pending", "completed", "discarded", "cancelled", "completed&kind=k", "cancelled&worker=w-one", "available&batch=night",
	} {
		met := b.walk("/console/tasks", "?status="+query, "/console/tasks/")
		require.Len(t, met, 120, query)
		require.Equal(t, 120, distinct(met), query)
	}
	require.Len(t, b.walk("/console/tasks", "?status=available&queue=a", "/console/tasks/"), 60)
	require.Equal(t, 8*120, distinct(b.walk("/console/tasks", "?kind=k", "/console/tasks/")))
}

// What few tasks have is found behind all the others of its queue.
func TestRareTasksAreFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO sched.river_job (kind, args, state, scheduled_at) SELECT CASE WHEN g = 900 THEN 'rare' ELSE 'common' END, '{}', s.state::sched.river_job_state, now() + g * interval '1 s'
		FROM generate_series(1, 900) AS g CROSS JOIN unnest('{available,scheduled}'::text[]) AS s (state)`)
	require.Contains(t, b.page("/console/tasks?status=available&kind=rare").text("tbody"), "rare")
	require.Contains(t, b.page("/console/tasks?status=scheduled&kind=rare").text("tbody"), "rare")
	require.Contains(t, b.page("/console/tasks?status=scheduled&kind=none").text("main"), "No task is like that")
	b.exec(`INSERT INTO sched.river_job (kind, args, queue, state) SELECT CASE WHEN g = 21000 THEN 'last' ELSE 'common' END, '{}', 'z', 'available' FROM generate_series(1, 21000) AS g`)
	first := b.page("/console/tasks?status=available&queue=z&kind=last")
	require.Contains(t, first.text("main"), "None among these 20 000 tasks")
	require.Contains(t, b.page("/console/tasks"+first.next()).text("tbody"), "last")
	b.exec(`UPDATE sched.river_job SET metadata = '{"sched:batch": "all"}' WHERE queue = 'z'`)
	require.Contains(t, b.page("/console/tasks?batch=all").text("main"), "20 000 tasks were looked at. There are more, in no order")
}

// Records are written a little out of order, and none is left out for it.
func TestRecordsAreListedToTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO sched.decision (at, what, subject, who, reason) SELECT now() - (g % 40) * interval '1 minute', 'health', 'w-' || g, 'w-one', 'why' FROM generate_series(1, 120) AS g`)
	b.exec(`INSERT INTO sched.operator_action (at, action, object_type, object, db_user, application_name)
		SELECT now() - (g % 40) * interval '1 minute', 'drain', 'worker', 'w-' || g, 'ann', '' FROM generate_series(1, 120) AS g`)
	for _, path := range []string{"/console/decisions", "/console/interventions"} {
		texts := map[string]bool{}
		rows, query := 0, "?what="
		if path == "/console/decisions" {
			query = "?what=health"
		}
		for ok := true; ok; ok = query != "" {
			a := b.page(path + query)
			for _, row := range a.all("tr") {
				for node := range row.Descendants() {
					if name := strings.TrimSpace(node.Data); strings.HasPrefix(name, "w-") && name != "w-one" || strings.HasPrefix(name, "worker w-") {
						texts[name] = true
					}
				}
			}
			rows += len(a.all("tr")) - 1
			query = a.next()
		}
		require.Equal(t, 120, rows, path)
		require.Len(t, texts, 120, path)
	}
}

// A rare kind of record costs a bounded look, and one can look further; what is about one thing is found by an index.
func TestRareRecordsAreFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO sched.decision (at, what, subject, who, reason)
		SELECT now() - g * interval '1 second', CASE WHEN g IN (100, 20500) THEN 'evict' ELSE 'assignment' END, 'w-' || g, 'w-one', 'why' FROM generate_series(1, 21000) AS g`)
	b.exec(`INSERT INTO sched.operator_action (at, action, object_type, object, db_user, application_name)
		SELECT now() - g * interval '1 second', 'cancel', CASE WHEN g = 20500 THEN 'canary' ELSE 'task' END, 't-' || g, 'ann', '' FROM generate_series(1, 21000) AS g`)
	b.exec(`ANALYZE sched.decision, sched.operator_action`)

	first := b.page("/console/decisions?what=evict")
	require.Contains(t, first.text("tbody"), "w-100")
	require.NotContains(t, first.text("tbody"), "w-20500")
	require.Contains(t, first.text("main"), "20 000 decisions were looked at. There are more")
	second := b.page("/console/decisions" + first.next())
	require.Contains(t, second.text("tbody"), "w-20500")
	require.Empty(t, second.next())
	require.NotContains(t, second.text("main"), "looked at")
	require.Contains(t, b.page("/console/decisions?what=evict&subject=w-20500").text("tbody"), "w-20500")
	require.Contains(t, b.page("/console/decisions?subject=w-20999").text("tbody"), "w-20999")

	first = b.page("/console/interventions?what=canary")
	require.Contains(t, first.text("main"), "None among these 20 000 interventions")
	require.Contains(t, b.page("/console/interventions"+first.next()).text("tbody"), "t-20500")
	require.Contains(t, b.page("/console/interventions?what=task&subject=t-20999").text("tbody"), "t-20999")
}

// Of many queues the overview has those that need a look, whatever they are called.
func TestOverviewHasTheWorstOfManyQueues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO sched.queue (name, base) SELECT 'q' || lpad(g::text, 4, '0'), 'q' || lpad(g::text, 4, '0') FROM generate_series(1, 400) AS g`)
	b.exec(`INSERT INTO sched.queue (name, base, pressure, pending, unroutable) VALUES ('zred', 'zred', 'red', 950, NULL), ('znobody', 'znobody', 'green', 1, 'gpu=true'), ('zmany', 'zmany', 'green', 700, NULL)`)
	b.exec(`UPDATE sched.fleet SET computed_at = clock_timestamp() + interval '1 hour', pending = 1000`)
	a := b.page("/console/")
	require.Subset(t, a.rows("/console/queues/"), []string{"znobody", "zred"})
	require.Contains(t, a.text("section"), "1 000 or more")
	require.Len(t, b.page("/console/queues").rows("/console/queues/"), 200)
}
