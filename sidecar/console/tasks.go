package console

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// pageMax is the number of rows of a page, lookMax how many rows are looked at for
	// them: filters that few tasks pass end there.
	pageMax = 50
	lookMax = 20_000
	// attemptsMax is how many attempts of a task are shown, the latest.
	attemptsMax = 100
	// filterMax bounds a filter's text, in bytes.
	filterMax = 200
)

// filter is which tasks to list; empty fields don't filter.
type filter struct{ Status, Kind, Queue, Worker, Batch string }

// Any reports whether anything is filtered.
func (f filter) Any() bool { return f != filter{} }

// Query is the filter in an address.
func (f filter) Query(before int64) string {
	v := url.Values{}
	for key, value := range map[string]string{"status": f.Status, "kind": f.Kind, "queue": f.Queue, "worker": f.Worker, "batch": f.Batch} {
		if value != "" {
			v.Set(key, value)
		}
	}
	if before > 0 {
		v.Set("before", strconv.FormatInt(before, 10))
	}
	return "?" + v.Encode()
}

type tasksBody struct {
	Now      time.Time
	Filter   filter
	Statuses []string
	Tasks    []task
	Order    string
	Wrong    string // what can't be filtered by
	Older    string // query of the next page; empty: none
	Looked   int64  // tasks looked at without finding a page full; 0: all there are
	Trouble  *trouble
}

func (c *Console) tasks(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if id := strings.TrimSpace(query.Get("id")); id != "" { // the search box
		http.Redirect(w, r, string(link("tasks", strings.TrimPrefix(id, "#"))), http.StatusSeeOther)
		return
	}
	text := func(key string) string { return strings.TrimSpace(query.Get(key)) }
	body := tasksBody{
		Statuses: statuses(),
		Filter:   filter{Status: text("status"), Kind: text("kind"), Queue: text("queue"), Worker: text("worker"), Batch: text("batch")},
	}
	before, err := strconv.ParseInt(query.Get("before"), 10, 64)
	if err != nil || before <= 0 {
		before = math.MaxInt64
	}
	body.check()
	if body.Wrong == "" {
		err = c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) error {
			body.Now = now
			return body.read(ctx, q, before)
		})
		if body.Trouble = troubleOf(err); body.Trouble != nil && body.Trouble.What == "Postgres does not answer" {
			c.sorry(w, r, sectionTasks, body.Trouble)
			return
		}
	}
	c.render(w, r, http.StatusOK, "tasks", page{Title: "Tasks", Section: sectionTasks, Body: body})
}

func (b *tasksBody) check() {
	if b.Filter.Status != "" && !slices.Contains(b.Statuses, b.Filter.Status) {
		b.Wrong = "There is no status " + strconv.Quote(short(filterMax, b.Filter.Status)) + "."
	}
	for _, value := range []string{b.Filter.Kind, b.Filter.Queue, b.Filter.Worker, b.Filter.Batch} {
		if len(value) > filterMax || strings.ContainsRune(value, 0) {
			b.Wrong = "No name is as long as that."
		}
	}
}

func (b *tasksBody) read(ctx context.Context, q *dbq.Queries, before int64) error {
	f := b.Filter
	var rows [][]byte
	var err error
	switch {
	case f.Batch != "":
		b.Order = "the newest first"
		rows, err = q.ConsoleTasksOfBatch(ctx, dbq.ConsoleTasksOfBatchParams{
			Batch: f.Batch, Status: f.Status, Kind: f.Kind, Queue: f.Queue, Worker: f.Worker, Max: pageMax, MaxLook: lookMax,
		})
	case f.Status != "":
		b.Order = orderOf(f.Status)
		rows, err = q.ConsoleTasksOfStatus(ctx, dbq.ConsoleTasksOfStatusParams{
			Status: f.Status, Kind: f.Kind, Queue: f.Queue, Worker: f.Worker, Max: pageMax, MaxLook: lookMax,
		})
	default:
		b.Order = "the newest first"
		rows, err = q.ConsoleTasks(ctx, dbq.ConsoleTasksParams{Before: before, Kind: f.Kind, Queue: f.Queue, Worker: f.Worker, Max: pageMax, MaxLook: b.look()})
	}
	if err != nil {
		return err
	}
	if b.Tasks, err = decode[task](rows); err != nil {
		return err
	}
	if f.Batch == "" && f.Status == "" {
		b.page()
	}
	return nil
}

// look is how far to look: a page, and one more, where every task is wanted.
func (b *tasksBody) look() int32 {
	if b.Filter.Any() {
		return lookMax
	}
	return pageMax + 1
}

func orderOf(status string) string {
	switch status {
	case "completed", "cancelled", "discarded":
		return "the latest end first"
	case "running", "pending":
		return "the latest start first"
	case "scheduled", "retryable":
		return "the soonest first"
	default:
		return "in the order in which they start"
	}
}

// page takes off the row that says how far was looked, and finds where the next page begins.
func (b *tasksBody) page() {
	at := slices.IndexFunc(b.Tasks, func(t task) bool { return t.Looked > 0 })
	if at < 0 {
		return
	}
	last := b.Tasks[at]
	b.Tasks = slices.Delete(b.Tasks, at, at+1)
	further := last.Looked >= int64(b.look())
	switch {
	case len(b.Tasks) >= pageMax:
		if end := b.Tasks[len(b.Tasks)-1].ID; further || end > last.ID {
			b.Older = b.Filter.Query(end)
		}
	case further:
		b.Looked = last.Looked
		b.Older = b.Filter.Query(last.ID)
	}
}

type taskBody struct {
	Now         time.Time
	Task        task
	Explain     []string
	ExplainFail *trouble
	Actions     []dbq.ConsoleActionsRow
	ActionsFail *trouble
	Trace       string // its trace id; empty: none
}

func (c *Console) task(w http.ResponseWriter, r *http.Request) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		c.missing(w, r, sectionTasks, "No such task", "A task's id is a number, and this is none: "+short(filterMax, text), Path+"/tasks", "All tasks")
		return
	}
	body := taskBody{}
	var whole []byte
	err = c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body.Now = now
		whole, err = q.TaskWhole(ctx, dbq.TaskWholeParams{ID: id, MaxAttempts: attemptsMax})
		return err
	})
	if isNoRows(err) {
		c.missing(w, r, sectionTasks, "No such task", "There is no task "+text+". Tasks that ended are deleted after a while.", Path+"/tasks", "All tasks")
		return
	}
	if err == nil {
		err = json.Unmarshal(whole, &body.Task)
	}
	if t := troubleOf(err); t != nil {
		c.sorry(w, r, sectionTasks, t)
		return
	}
	// What may not be read is left out by itself.
	body.ExplainFail = troubleOf(c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, _ time.Time) (err error) {
		body.Explain, err = q.TaskExplain(ctx, id)
		return err
	}))
	body.ActionsFail = troubleOf(c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, _ time.Time) (err error) {
		body.Actions, err = q.ConsoleActions(ctx, dbq.ConsoleActionsParams{ObjectType: "task", Object: strconv.FormatInt(id, 10), Max: detailMax})
		return err
	}))
	if parts := strings.Split(body.Task.Headers["traceparent"], "-"); len(parts) >= 4 {
		body.Trace = parts[1]
	}
	c.render(w, r, http.StatusOK, "task", page{Title: "Task " + text, Section: sectionTasks, Refresh: refreshUnless(body.Task.Ended()), Body: body})
}
