package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/sql/dbq"
)

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// recordFilter is which records to list; empty fields don't filter.
type recordFilter struct {
	What, Subject string
}

// readFilter reads what is asked for, and where the page begins.
func readFilter(r *http.Request) (f recordFilter, before position) {
	query := r.URL.Query()
	before, ok := parsePosition(query.Get("before"), true)
	if !ok {
		before = newest()
	}
	f = recordFilter{What: strings.TrimSpace(query.Get("what")), Subject: strings.TrimSpace(query.Get("subject"))}
	if len(f.What) > filterMax || len(f.Subject) > filterMax || strings.ContainsRune(f.What+f.Subject, 0) {
		return recordFilter{}, newest()
	}
	return f, before
}

func (f recordFilter) older(from position) string {
	v := url.Values{"before": {from.String()}}
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

func readDecisions(ctx context.Context, q *dbq.Queries, before position, f recordFilter, most int32) ([]dbq.ConsoleDecisionsRow, error) {
	return q.ConsoleDecisions(ctx, dbq.ConsoleDecisionsParams{BeforeAt: before.At, BeforeID: before.ID, Subject: f.Subject, What: f.What, Max: most})
}

func readActions(ctx context.Context, q *dbq.Queries, before position, f recordFilter, most int32) ([]dbq.ConsoleActionsRow, error) {
	return q.ConsoleActions(ctx, dbq.ConsoleActionsParams{BeforeAt: before.At, BeforeID: before.ID, Object: f.Subject, ObjectType: f.What, Max: most})
}

type decisionsBody struct {
	Now       time.Time
	Filter    recordFilter
	Kinds     []string
	Decisions []dbq.ConsoleDecisionsRow
	Older     string
	Trouble   *trouble
}

func (c *Console) decisions(w http.ResponseWriter, r *http.Request) {
	f, before := readFilter(r)
	body := decisionsBody{
		Filter: f,
		Kinds:  []string{"assignment", "canary", "evict", "health", "pause", "pressure", "slots", "slots observed", "unroutable"},
	}
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body.Now = now
		body.Decisions, err = readDecisions(ctx, q, before, f, pageMax+1)
		return err
	})
	if body.Trouble = troubleOf(err); body.Trouble != nil && body.Trouble.status != http.StatusOK {
		c.sorry(w, r, sectionDecisions, body.Trouble)
		return
	}
	if len(body.Decisions) > pageMax {
		body.Decisions = body.Decisions[:pageMax]
		last := body.Decisions[pageMax-1]
		body.Older = f.older(position{ID: last.ID, At: last.At})
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
	f, before := readFilter(r)
	body := interventionsBody{
		Filter: f, Kinds: []string{"canary", "kind", "queue", "schedule", "setting", "task", "worker"},
	}
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body.Now = now
		body.Actions, err = readActions(ctx, q, before, f, pageMax+1)
		return err
	})
	if body.Trouble = troubleOf(err); body.Trouble != nil && body.Trouble.status != http.StatusOK {
		c.sorry(w, r, sectionInterventions, body.Trouble)
		return
	}
	if len(body.Actions) > pageMax {
		body.Actions = body.Actions[:pageMax]
		last := body.Actions[pageMax-1]
		body.Older = f.older(position{ID: last.ID, At: last.At})
	}
	c.render(w, r, http.StatusOK, "interventions", page{Title: "Interventions", Section: sectionInterventions, Body: body})
}
