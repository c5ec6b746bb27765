package console

import (
	"context"
	"encoding/json"
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

// Query is the filter in an address, with the place where the page begins.
func (f filter) Query(before position) string {
	v := url.Values{}
	for key, value := range map[string]string{"status": f.Status, "kind": f.Kind, "queue": f.Queue, "worker": f.Worker, "batch": f.Batch} {
		if value != "" {
			v.Set(key, value)
		}
	}
	v.Set("before", before.String())
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
	Rest     bool   // of those there are more, and no page shows them
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
	body.check()
	if body.Wrong == "" {
		err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) error {
			body.Now = now
			return body.read(ctx, q, query.Get("before"))
		})
		if body.Trouble = troubleOf(err); body.Trouble != nil && body.Trouble.What == "Postgres does not answer" {
			c.sorry(w, r, sectionTasks, body.Trouble)
			return
		}
	}
	c.render(w, r, http.StatusOK, "tasks", page{Title: "Tasks", Section: sectionTasks, Body: body})
}

// OlderText is what the link to the next page says: it leads to later tasks where the soonest come first.
func (b tasksBody) OlderText() string {
	if f := b.Filter; f.Batch == "" && (f.Status == "available" || f.Status == "scheduled" || f.Status == "retryable") {
		return "Next"
	}
	return "Older"
}

func (b *tasksBody) check() {
	if b.Filter.Status != "" && !slices.Contains(b.Statuses, b.Filter.Status) {
		b.Wrong = "There is no status " + strconv.Quote(short(filterMax, b.Filter.Status)) + "."
	}
	for _, value := range []string{b.Filter.Kind, b.Filter.Queue, b.Filter.Worker, b.Filter.Batch} {
		if len(value) > filterMax {
			b.Wrong = "No name is as long as that."
		}
	}
}

// read reads the page that begins at a place.
func (b *tasksBody) read(ctx context.Context, q *dbq.Queries, before string) error {
	l := listOf(b.Filter)
	b.Order = l.order
	from, ok := parsePosition(before, l.timed)
	if !ok {
		from = l.start
	}
	rows, err := l.read(ctx, q, from, pageMax, l.look)
	if err != nil {
		return err
	}
	if b.Tasks, err = decode[task](rows); err != nil {
		return err
	}
	b.page(l)
	return nil
}

// taskList is one of the orders in which tasks are listed.
type taskList struct {
	order string
	start position
	timed bool  // positions have a time
	look  int32 // how many tasks are looked at for a page
	whole bool  // that many are all that can be: the list goes no further
	// read returns up to most tasks after a position, and with looked the last one that was looked at.
	read func(ctx context.Context, q *dbq.Queries, from position, most, look int32) ([][]byte, error)
	// at is where a task is in the list.
	at func(t task) position
}

// listOf is the list that a filter is answered from. It looks at no more than a page, and
// one more, where every task that it looks at is wanted.
func listOf(f filter) taskList {
	l := taskList{order: "the newest first", start: newest(), look: pageMax + 1, at: func(t task) position { return position{ID: t.ID} }}
	switch {
	case f.Batch != "" || f.Status == "pending":
		l.read, l.whole = f.readBatch, true
	case f.Status == "":
		l.read = f.readAll
	case f.Status == "available":
		l.order, l.timed, l.start, l.read = "in the order in which each queue starts them", true, position{}, f.readAvailable
		l.at = func(t task) position { return position{t.ID, t.RunAt, t.Priority, t.Queue} }
		f.Queue = "" // it is looked for, rather than at
	default:
		l.timed, l.read = true, f.readStatus
		l.order, l.start, l.at = orderOf(f.Status)
	}
	timed := f.Status == "scheduled" || f.Status == "retryable"
	if f.Kind != "" || f.Queue != "" || f.Worker != "" || l.whole || timed {
		l.look = lookMax
	}
	return l
}

// orderOf says how tasks of a status with a time are ordered, where that begins and where a task is in it.
func orderOf(status string) (order string, start position, at func(t task) position) {
	switch status {
	case "running":
		return "the latest start first", newest(), func(t task) position { return position{ID: t.ID, At: timeOf(t.StartTime)} }
	case "scheduled", "retryable":
		return "the soonest first", position{}, func(t task) position { return position{ID: t.ID, At: t.RunAt} }
	default:
		return "the latest end first", newest(), func(t task) position { return position{ID: t.ID, At: timeOf(t.EndTime)} }
	}
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func (f filter) readAll(ctx context.Context, q *dbq.Queries, from position, most, look int32) ([][]byte, error) {
	return q.ConsoleTasks(ctx, dbq.ConsoleTasksParams{Before: from.ID, Kind: f.Kind, Queue: f.Queue, Worker: f.Worker, Max: most, MaxLook: look})
}

func (f filter) readBatch(ctx context.Context, q *dbq.Queries, from position, most, look int32) ([][]byte, error) {
	return q.ConsoleTasksOfBatch(ctx, dbq.ConsoleTasksOfBatchParams{
		Batch: f.Batch, Before: from.ID, Status: f.Status, Kind: f.Kind, Queue: f.Queue, Worker: f.Worker, Max: most + 1, MaxLook: look,
	})
}

func (f filter) readAvailable(ctx context.Context, q *dbq.Queries, from position, most, look int32) ([][]byte, error) {
	return q.ConsoleTasksAvailable(ctx, dbq.ConsoleTasksAvailableParams{
		FromQueue: from.Queue, FromPriority: int16(from.Priority), FromAt: from.At, FromID: from.ID,
		Kind: f.Kind, Queue: f.Queue, Worker: f.Worker, Max: most, MaxLook: look,
	})
}

func (f filter) readStatus(ctx context.Context, q *dbq.Queries, from position, most, look int32) ([][]byte, error) {
	return q.ConsoleTasksOfStatus(ctx, dbq.ConsoleTasksOfStatusParams{
		Status: f.Status, FromAt: from.At, FromID: from.ID, Kind: f.Kind, Queue: f.Queue, Worker: f.Worker, Max: most, MaxLook: look,
	})
}

// firstTasks reads the first tasks that pass a filter, up to most of them.
func firstTasks(ctx context.Context, q *dbq.Queries, f filter, most int32) ([]task, error) {
	l := listOf(f)
	rows, err := l.read(ctx, q, l.start, most, l.look)
	if err != nil {
		return nil, err
	}
	tasks, err := decode[task](rows)
	return slices.DeleteFunc(tasks, func(t task) bool { return t.Looked > 0 }), err
}

// page takes off the row that says how far was looked, and finds where the next page begins.
func (b *tasksBody) page(l taskList) {
	at := slices.IndexFunc(b.Tasks, func(t task) bool { return t.Looked > 0 })
	if at < 0 {
		return
	}
	last := b.Tasks[at]
	b.Tasks = slices.Delete(b.Tasks, at, at+1)
	further := last.Looked >= int64(l.look)
	switch {
	case l.whole:
		if len(b.Tasks) > pageMax {
			b.Tasks = b.Tasks[:pageMax]
			b.Older = b.Filter.Query(l.at(b.Tasks[pageMax-1]))
		}
		if further {
			b.Looked, b.Rest = last.Looked, true
		}
	case len(b.Tasks) >= pageMax:
		if end := b.Tasks[len(b.Tasks)-1]; further || end.ID != last.ID {
			b.Older = b.Filter.Query(l.at(end))
		}
	case further:
		b.Looked = last.Looked
		b.Older = b.Filter.Query(l.at(last))
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
		body.Actions, _, err = readActions(ctx, q, newest(), recordFilter{What: "task", Subject: strconv.FormatInt(id, 10)}, detailMax)
		return err
	}))
	if parts := strings.Split(body.Task.Headers["traceparent"], "-"); len(parts) >= 4 {
		body.Trace = parts[1]
	}
	c.render(w, r, http.StatusOK, "task", page{Title: "Task " + text, Section: sectionTasks, Refresh: refreshUnless(body.Task.Ended()), Body: body})
}
