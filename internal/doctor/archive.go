package doctor

import (
	"context"
	"fmt"
	"time"
)

const (
	archiveSlack = 10 * time.Minute // that the leader may be late with the archive
	archiveMax   = 10_000           // rows of each kind that are counted
)

// lookAtArchive looks for what the leader should have moved or dropped.
func lookAtArchive(ctx context.Context, p *patient) ([]Finding, error) {
	var late, months int
	var oldest, first, end *time.Time
	err := p.tx.QueryRow(ctx, `WITH setting AS (
			SELECT make_interval(secs => coalesce((SELECT value::text::int FROM sched.setting WHERE key = 'archive_after_seconds'), 900)) AS after,
				make_interval(days => coalesce((SELECT value::text::int FROM sched.setting WHERE key = 'archive_keep_days'), 90)) AS keep
		), late AS (
			SELECT e.finalized_at
			FROM setting AS s
			CROSS JOIN unnest('{completed,cancelled,discarded}'::sched.river_job_state[]) AS t (state)
			CROSS JOIN LATERAL (
				SELECT j.finalized_at, j.unique_key IS NOT NULL AND j.unique_states IS NOT NULL
					AND j.finalized_at > now() - CASE j.state WHEN 'discarded' THEN interval '7 days' ELSE interval '1 day' END AS held
				FROM sched.river_job AS j
				WHERE j.state = t.state AND j.finalized_at < now() - s.after - make_interval(secs => $1)
				ORDER BY j.finalized_at LIMIT $2
			) AS e
			WHERE NOT e.held
		), month AS (
			SELECT to_timestamp(right(c.relname, 7), 'YYYY_MM')::timestamp AT TIME ZONE 'UTC' AS begins,
				(to_timestamp(right(c.relname, 7), 'YYYY_MM')::timestamp + interval '1 month') AT TIME ZONE 'UTC' AS ends
			FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
			WHERE i.inhparent = 'sched.task_archive'::regclass AND c.relname ~ '^task_archive_[0-9]{4}_[0-9]{2}$'
		)
		SELECT (SELECT count(*) FROM late), (SELECT min(finalized_at) FROM late),
			(SELECT count(*) FROM month AS m, setting AS s WHERE m.ends <= now() - s.keep - interval '1 day'),
			(SELECT min(begins) FROM month), (SELECT max(ends) FROM month)`,
		archiveSlack.Seconds(), archiveMax).Scan(&late, &oldest, &months, &first, &end)
	if err != nil {
		return nil, err
	}
	// Not by the name of their partition, which only its owner may read.
	var homeless int
	err = p.tx.QueryRow(ctx, `SELECT count(*) FROM (
		SELECT FROM sched.task_archive AS a WHERE a.end_time < coalesce($1, 'infinity'::timestamptz) OR a.end_time >= coalesce($2, 'infinity'::timestamptz) LIMIT $3
	) AS d`, first, end, archiveMax).Scan(&homeless)
	if err != nil {
		return nil, err
	}
	return judgeArchive(homeless, late, oldest, months), nil
}

// judgeArchive says what is wrong with rows in no month, tasks that are late, the oldest of
// them, and months that should be gone.
func judgeArchive(homeless, late int, oldest *time.Time, months int) []Finding {
	var found []Finding
	if late > 0 && oldest != nil {
		found = append(found, Finding{
			Level:   Warning,
			Message: fmt.Sprintf("%s tasks that ended are not in the archive yet, the oldest since %s: claims get slower as they pile up", upTo(late), oldest.UTC().Format(time.RFC3339)),
			Advice:  "the leader moves them: see the check leader and its log; rows that a transaction holds locked wait for it",
		})
	}
	if homeless > 0 {
		found = append(found, Finding{
			Level:   Warning,
			Message: fmt.Sprintf("%s archived tasks are of months without a partition: such a month can't get one while they are there, nor be dropped at once", upTo(homeless)),
			Advice:  "a leader makes partitions two months ahead: see the check leader. They are read as all others, and deleted when they are older than the setting archive_keep_days",
		})
	}
	if months > 0 {
		found = append(found, Finding{
			Level:   Warning,
			Message: fmt.Sprintf("%d months of the archive are older than the setting archive_keep_days and still there", months),
			Advice:  "the leader drops one each minute unless somebody reads it: see the checks leader and transactions",
		})
	}
	if len(found) == 0 {
		found = append(found, ok("what ended is moved to the archive in time, and what is too old is dropped"))
	}
	return found
}

// upTo shows a count that ends at archiveMax.
func upTo(n int) string {
	if n >= archiveMax {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}
