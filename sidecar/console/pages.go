package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// The sections of the navigation.
const (
	sectionOverview      = "overview"
	sectionWorkers       = "workers"
	sectionQueues        = "queues"
	sectionTasks         = "tasks"
	sectionDecisions     = "decisions"
	sectionInterventions = "interventions"
)

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	var body overviewBody
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body, err = readOverview(ctx, q, now)
		return err
	})
	if t := troubleOf(err); t != nil {
		c.sorry(w, r, sectionOverview, t)
		return
	}
	c.render(w, r, http.StatusOK, "overview", page{Title: "Overview", Section: sectionOverview, Live: topicOverview, Body: body})
}

func (c *Console) workers(w http.ResponseWriter, r *http.Request) {
	ended := r.URL.Query().Get("ended") == "yes"
	var body workersBody
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body, err = readWorkers(ctx, q, now, ended)
		return err
	})
	if t := troubleOf(err); t != nil {
		c.sorry(w, r, sectionWorkers, t)
		return
	}
	p := page{Title: "Workers", Section: sectionWorkers, Body: body}
	if !ended { // who ended doesn't change
		p.Live = topicWorkers
	}
	c.render(w, r, http.StatusOK, "workers", p)
}

type workerBody struct {
	Now         time.Time
	Worker      worker
	Assignments []assignment
	Running     []task
	Decisions   []dbq.ConsoleDecisionsRow
}

// detailMax is the number of rows of each table on a page about one thing.
const detailMax = 50

func (c *Console) worker(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	var body workerBody
	found := false
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) error {
		body.Now = now
		rows, err := q.WorkerList(ctx, dbq.WorkerListParams{Ended: true, ID: pgtype.Text{String: id, Valid: true}, Max: 1})
		if err != nil || len(rows) == 0 {
			return err
		}
		workers, err := decode[worker](rows)
		if err != nil {
			return err
		}
		found, body.Worker = true, workers[0]
		rows, err = q.AssignmentList(ctx, dbq.AssignmentListParams{WorkerID: pgtype.Text{String: id, Valid: true}, Max: detailMax})
		if err != nil {
			return err
		}
		if body.Assignments, err = decode[assignment](rows); err != nil {
			return err
		}
		if body.Running, err = firstTasks(ctx, q, filter{Status: "running", Worker: id}, detailMax); err != nil {
			return err
		}
		body.Decisions, _, err = readDecisions(ctx, q, newest(), recordFilter{Subject: id}, detailMax)
		return err
	})
	switch t := troubleOf(err); {
	case t != nil:
		c.sorry(w, r, sectionWorkers, t)
	case !found:
		c.missing(w, r, sectionWorkers, "No such worker", "No worker is registered as "+id+". Workers that ended are kept for a while only.", Path+"/workers?ended=yes", "All workers")
	default:
		c.render(w, r, http.StatusOK, "worker", page{Title: "Worker " + id, Section: sectionWorkers, Refresh: refreshUnless(body.Worker.EndedAt != nil), Body: body})
	}
}

// refreshUnless is how often a page about one thing asks again, in seconds.
func refreshUnless(ended bool) int {
	if ended {
		return 0
	}
	return 3
}

func (c *Console) queues(w http.ResponseWriter, r *http.Request) {
	var body queuesBody
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		body, err = readQueues(ctx, q, now)
		return err
	})
	if t := troubleOf(err); t != nil {
		c.sorry(w, r, sectionQueues, t)
		return
	}
	c.render(w, r, http.StatusOK, "queues", page{Title: "Queues", Section: sectionQueues, Live: topicQueues, Body: body})
}

type queueBody struct {
	Now         time.Time
	Queue       queue
	Assignments []assignment
	Next        []task
	Decisions   []dbq.ConsoleDecisionsRow
	Actions     []dbq.ConsoleActionsRow
}

func (c *Console) queue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	var body queueBody
	found := false
	err := c.reader.read(r.Context(), func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		found, body, err = readQueue(ctx, q, name)
		body.Now = now
		return err
	})
	switch t := troubleOf(err); {
	case t != nil:
		c.sorry(w, r, sectionQueues, t)
	case !found:
		c.missing(w, r, sectionQueues, "No such queue", "There is no queue called "+name+".", Path+"/queues", "All queues")
	default:
		c.render(w, r, http.StatusOK, "queue", page{Title: "Queue " + name, Section: sectionQueues, Refresh: refreshUnless(false), Body: body})
	}
}

func readQueue(ctx context.Context, q *dbq.Queries, name string) (found bool, body queueBody, err error) {
	rows, err := q.QueueList(ctx, dbq.QueueListParams{Names: []string{name}, Max: rowsMax, MaxCount: countMax})
	if err != nil {
		return false, body, err
	}
	queues, err := decode[queue](rows) // with those derived from it
	if err != nil {
		return false, body, err
	}
	at := slices.IndexFunc(queues, func(each queue) bool { return each.Name == name })
	if at < 0 {
		return false, body, nil
	}
	body.Queue = queues[at]
	rows, err = q.AssignmentList(ctx, dbq.AssignmentListParams{Queues: []string{name}, Max: rowsMax})
	if err != nil {
		return false, body, err
	}
	all, err := decode[assignment](rows)
	if err != nil {
		return false, body, err
	}
	body.Assignments = sharesOf(name, all)
	if body.Next, err = firstTasks(ctx, q, filter{Status: "available", Queue: name}, 10); err != nil {
		return false, body, err
	}
	if body.Decisions, _, err = readDecisions(ctx, q, newest(), recordFilter{Subject: name}, detailMax); err != nil {
		return false, body, err
	}
	body.Actions, _, err = readActions(ctx, q, newest(), recordFilter{What: "queue", Subject: name}, detailMax)
	return true, body, err
}

// sharesOf keeps the assignments of one queue, each with its share of their weight.
func sharesOf(name string, all []assignment) []assignment {
	var own []assignment
	var total int64
	for _, each := range all {
		if each.Queue == name {
			own = append(own, each)
			total += each.Weight
		}
	}
	for i := range own {
		own[i].Share = float64(own[i].Weight) / float64(max(1, total))
	}
	return own
}
