package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/sql/dbq"
)

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// recordFilter is which records to list.
type recordFilter struct {
	What, Subject string
	before        int64
}

func readFilter(r *http.Request) recordFilter {
	query := r.URL.Query()
	f := recordFilter{What: strings.TrimSpace(query.Get("what")), Subject: strings.TrimSpace(query.Get("subject"))}
	if before, err := strconv.ParseInt(query.Get("before"), 10, 64); err == nil && before > 0 {
		f.before = before
	}
	if len(f.What) > filterMax || len(f.Subject) > filterMax || strings.ContainsRune(f.What+f.Subject, 0) {
		return recordFilter{}
	}
	return f
}

func (f recordFilter) older(id int64) string {
	v := url.Values{"before": {strconv.FormatInt(id, 10)}}
	if f.What != "" {
		v.Set("what", f.What)
	}
	if f.Subject != "" {
		v.Set("subject", f.Subject)
	}
	return "?" + v.Encode()
}

// Any reports whether anything is filtered.
func (f recordFilter) Any() bool { return f.What != "" || f.Subject != "" }

type decisionsBody struct {
	Now       time.Time
	Filter    recordFilter
	Kinds     []string
	Decisions []dbq.ConsoleDecisionsRow
	Older     string
	Trouble   *trouble
}

func (c *Console) decisions(w http.ResponseWriter, r *http.Request) {
	body := decisionsBody{
		Filter: readFilter(r),
		Kinds:  []string{"assignment", "canary", "evict", "health", "pause", "pressure", "slots", "slots observed", "unroutable"},
	}
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body.Now = now
		body.Decisions, err = q.ConsoleDecisions(ctx, dbq.ConsoleDecisionsParams{
			Before: body.Filter.before, Subject: body.Filter.Subject, What: body.Filter.What, Max: pageMax + 1,
		})
		return err
	})
	if body.Trouble = troubleOf(err); body.Trouble != nil && body.Trouble.status != http.StatusOK {
		c.sorry(w, r, sectionDecisions, body.Trouble)
		return
	}
	if len(body.Decisions) > pageMax {
		body.Decisions = body.Decisions[:pageMax]
		body.Older = body.Filter.older(body.Decisions[pageMax-1].ID)
	}
	c.render(w, r, http.StatusOK, "decisions", page{Title: "Decisions", Section: sectionDecisions, Body: body})
}

type interventionsBody struct {
	Now     time.Time
	Filter  recordFilter
	Kinds   []string
	Actions []dbq.ConsoleActionsRow
	Older   string
	Trouble *trouble
}

func (c *Console) interventions(w http.ResponseWriter, r *http.Request) {
	body := interventionsBody{
		Filter: readFilter(r), Kinds: []string{"canary", "kind", "queue", "schedule", "setting", "task", "worker"},
	}
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body.Now = now
		body.Actions, err = q.ConsoleActions(ctx, dbq.ConsoleActionsParams{
			BeforeID: body.Filter.before, Object: body.Filter.Subject, ObjectType: body.Filter.What, Max: pageMax + 1,
		})
		return err
	})
	if body.Trouble = troubleOf(err); body.Trouble != nil && body.Trouble.status != http.StatusOK {
		c.sorry(w, r, sectionInterventions, body.Trouble)
		return
	}
	if len(body.Actions) > pageMax {
		body.Actions = body.Actions[:pageMax]
		body.Older = body.Filter.older(body.Actions[pageMax-1].ID)
	}
	c.render(w, r, http.StatusOK, "interventions", page{Title: "Interventions", Section: sectionInterventions, Body: body})
}
