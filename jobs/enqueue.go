package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Enqueue adds a task and returns its id, or the id of the unfinished task
// that already has its [UniqueKey]. On a transaction the task exists exactly
// when that commits; on a pool it exists when Enqueue returns.
//
// It returns [ErrInvalidArgument] when an argument is malformed or out of
// range and [ErrTooLarge] when the args are over the limit (1 MiB unless the
// operator changed it), and [ErrRejected] when the queue takes nothing under the
// pressure it is in. An error of the server's, as any in Postgres, leaves
// an open transaction fit only to be rolled back.
func Enqueue(ctx context.Context, db DB, args Args, opts ...Option) (int64, error) {
	task := Task{Args: args, Options: opts}
	o := task.options()
	s := startSend(ctx, o.queue)
	s.carry(o)
	id, err := enqueue(ctx, db, task, o)
	s.end(err, id)
	return id, err
}

func enqueue(ctx context.Context, db DB, task Task, o *options) (int64, error) {
	params, err := task.params(o)
	if err != nil {
		return 0, fmt.Errorf("sched.enqueue: %w", err)
	}
	query, values := enqueueStatement(params)
	var id int64
	if err := db.QueryRow(ctx, query, values...).Scan(&id); err != nil {
		return 0, serverError("sched.enqueue", err)
	}
	return id, nil
}

// EnqueueTx is [Enqueue] that takes nothing but a transaction: the task exists
// exactly when tx commits, together with the rest of what tx wrote.
func EnqueueTx(ctx context.Context, tx Tx, args Args, opts ...Option) (int64, error) {
	return Enqueue(ctx, tx, args, opts...)
}

// EnqueueMany adds tasks in one call, all or none, and returns their ids in
// the order of tasks. It is many times faster than calling [Enqueue] for
// each, and fastest, as fast as a COPY, when all have the same options, no
// [UniqueKey] among them, and differ in their args alone. Up to 100,000 tasks
// fit into one call unless the operator changed that. No tasks are no call.
//
// Errors are those of [Enqueue], and name the index of the task at fault;
// [ErrTooLarge] also means too many tasks.
func EnqueueMany(ctx context.Context, db DB, tasks []Task) ([]int64, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	s := startSendMany(ctx, tasks)
	ids, err := enqueueMany(ctx, db, tasks, s)
	s.end(err, ids...)
	return ids, err
}

func enqueueMany(ctx context.Context, db DB, tasks []Task, s send) ([]int64, error) {
	body, delayed, err := marshalTasks(tasks, s)
	if err != nil {
		return nil, fmt.Errorf("sched.enqueue_many: %w", err)
	}
	query := enqueueManySQL
	if delayed {
		query = enqueueManyDelayedSQL
	}
	// JSON is the one form of a list that every driver can scan.
	var list string
	if err := db.QueryRow(ctx, query, body).Scan(&list); err != nil {
		return nil, serverError("sched.enqueue_many", err)
	}
	ids := make([]int64, 0, len(tasks))
	if err := json.Unmarshal([]byte(list), &ids); err != nil {
		return nil, fmt.Errorf("sched.enqueue_many: ids: %w", err)
	}
	return ids, nil
}

// EnqueueManyTx is [EnqueueMany] that takes nothing but a transaction.
func EnqueueManyTx(ctx context.Context, tx Tx, tasks []Task) ([]int64, error) {
	return EnqueueMany(ctx, tx, tasks)
}

const (
	enqueueManySQL = `select json_agg(id order by n)::text
from sched.enqueue_many($1::jsonb) with ordinality as t (id, n)`

	// Turns each delay into a run_at on the server's clock first, read once: tasks
	// with equal delays stay equal, which is what makes them quick.
	enqueueManyDelayedSQL = `select json_agg(id order by n)::text
from sched.enqueue_many((
	select jsonb_agg(
		case when task ? 'delay'
			then task - 'delay' || jsonb_build_object('run_at', clock.now + (task->>'delay')::interval)
			else task
		end order by n)
	from (select clock_timestamp() as now) as clock, jsonb_array_elements($1::jsonb) with ordinality as i (task, n)
)) with ordinality as t (id, n)`
)

// enqueueStatement names only what is set, so that every default is the
// server's. Params come in a fixed order: one text, and one prepared
// statement, for each set of options that the caller uses.
func enqueueStatement(params []param) (string, []any) {
	var query strings.Builder
	query.WriteString("select sched.enqueue(")
	values := make([]any, 0, len(params))
	for i, p := range params {
		if i > 0 {
			query.WriteString(", ")
		}
		placeholder := "$" + strconv.Itoa(i+1) + "::" + p.cast
		if p.name == delayParam {
			p.name, placeholder = "run_at", "clock_timestamp() + "+placeholder
		}
		query.WriteString(p.name + " => " + placeholder)
		if body, ok := p.value.(json.RawMessage); ok {
			p.value = string(body)
		}
		values = append(values, p.value)
	}
	query.WriteString(")")
	return query.String(), values
}

func marshalTasks(tasks []Task, s send) (body string, delayed bool, err error) {
	objects := make([]map[string]any, len(tasks))
	for i, task := range tasks {
		o := task.options()
		s.carry(o)
		params, err := task.params(o)
		if err != nil {
			return "", false, fmt.Errorf("tasks[%d]: %w", i, err)
		}
		object := make(map[string]any, len(params))
		for _, p := range params {
			object[p.name] = p.value
			delayed = delayed || p.name == delayParam
		}
		objects[i] = object
	}
	encoded, err := json.Marshal(objects)
	if err != nil {
		return "", false, fmt.Errorf("%w: tasks are no JSON: %w", ErrInvalidArgument, err)
	}
	return string(encoded), delayed, nil
}
