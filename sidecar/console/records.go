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
	if len(f.What) > filterMax || len(f.Subject) > filterMax {
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

// look is how many records are looked at for most of them: those of a kind are looked for
// among many, those about something are found.
func (f recordFilter) look(most int32) int32 {
	if f.What == "" {
		return most
	}
	return lookMax
}

// seen is the last record that was looked at, and how many were; zero: there was none.
type seen struct {
	position
	looked int64
}

func readDecisions(ctx context.Context, q *dbq.Queries, before position, f recordFilter, most int32) ([]dbq.ConsoleDecisionsRow, seen, error) {
	rows, err := q.ConsoleDecisions(ctx, dbq.ConsoleDecisionsParams{
		BeforeAt: before.At, BeforeID: before.ID, Subject: f.Subject, What: f.What, Max: most, MaxLook: f.look(most),
	})
	if err != nil || len(rows) == 0 {
		return nil, seen{}, err
	}
	last := rows[len(rows)-1]
	return rows[:len(rows)-1], seen{position{ID: last.ID, At: last.At}, last.Looked}, nil
}

func readActions(ctx context.Context, q *dbq.Queries, before position, f recordFilter, most int32) ([]dbq.ConsoleActionsRow, seen, error) {
	rows, err := q.ConsoleActions(ctx, dbq.ConsoleActionsParams{
		BeforeAt: before.At, BeforeID: before.ID, Object: f.Subject, ObjectType: f.What, Max: most, MaxLook: f.look(most),
	})
	if err != nil || len(rows) == 0 {
		return nil, seen{}, err
	}
	last := rows[len(rows)-1]
	return rows[:len(rows)-1], seen{position{ID: last.ID, At: last.At}, last.Looked}, nil
}

// recordsPage is how a page of records ends.
type recordsPage struct {
	Older  string // query of the next page; empty: none
	Looked int64  // records looked at without finding a page full; 0: all there are
}

// pageOf cuts rows to a page, of which at says where one is, and finds where the next begins.
func pageOf[T any](f recordFilter, rows []T, last seen, at func(row T) position) ([]T, recordsPage) {
	switch {
	case len(rows) > pageMax:
		return rows[:pageMax], recordsPage{Older: f.older(at(rows[pageMax-1]))}
	case f.What != "" && last.looked >= lookMax:
		return rows, recordsPage{Older: f.older(last.position), Looked: last.looked}
	default:
		return rows, recordsPage{}
	}
}

type decisionsBody struct {
	Now       time.Time
	Filter    recordFilter
	Kinds     []string
	Decisions []dbq.ConsoleDecisionsRow
	Trouble   *trouble
	recordsPage
}

func (c *Console) decisions(w http.ResponseWriter, r *http.Request) {
	f, before := readFilter(r)
	body := decisionsBody{
		Filter: f,
		Kinds:  []string{"assignment", "canary", "evict", "health", "pause", "pressure", "slots", "slots observed", "unroutable"},
	}
	var last seen
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body.Now = now
		body.Decisions, last, err = readDecisions(ctx, q, before, f, pageMax+1)
		return err
	})
	if body.Trouble = troubleOf(err); body.Trouble != nil && body.Trouble.status != http.StatusOK {
		c.sorry(w, r, sectionDecisions, body.Trouble)
		return
	}
	body.Decisions, body.recordsPage = pageOf(f, body.Decisions, last, func(row dbq.ConsoleDecisionsRow) position { return position{ID: row.ID, At: row.At} })
	c.render(w, r, http.StatusOK, "decisions", page{Title: "Decisions", Section: sectionDecisions, Body: body})
}

type interventionsBody struct {
	Now     time.Time
	Filter  recordFilter
	Kinds   []string
	Actions []dbq.ConsoleActionsRow
	Trouble *trouble
	recordsPage
}

func (c *Console) interventions(w http.ResponseWriter, r *http.Request) {
	f, before := readFilter(r)
	body := interventionsBody{
		Filter: f, Kinds: []string{"canary", "kind", "queue", "schedule", "setting", "task", "worker"},
	}
	var last seen
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body.Now = now
		body.Actions, last, err = readActions(ctx, q, before, f, pageMax+1)
		return err
	})
	if body.Trouble = troubleOf(err); body.Trouble != nil && body.Trouble.status != http.StatusOK {
		c.sorry(w, r, sectionInterventions, body.Trouble)
		return
	}
	body.Actions, body.recordsPage = pageOf(f, body.Actions, last, func(row dbq.ConsoleActionsRow) position { return position{ID: row.ID, At: row.At} })
	c.render(w, r, http.StatusOK, "interventions", page{Title: "Interventions", Section: sectionInterventions, Body: body})
}
