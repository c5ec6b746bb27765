package jobs

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Level is how close a queue or the fleet is to its limits.
type Level string

// The levels of pressure.
const (
	LevelGreen  Level = "green"
	LevelYellow Level = "yellow"
	LevelRed    Level = "red"
)

// QueuePressure is how close a queue, or the fleet, is to its limits.
type QueuePressure struct {
	Level      Level
	Reason     string        // why it isn't green, or that nobody computes it; may be empty
	Pending    int           // tasks available and due, counted up to MaxPending
	MaxPending int           // tasks that count as full
	Load       float64       // mean running / ceiling of the workers, 0 to 1
	Workers    int           // workers that serve it
	RetryAfter time.Duration // when to ask again; 0 when green
	Age        time.Duration // how old this is; below 0: never computed
}

// Pressure tells how close a queue is to its limits, or the fleet if queue is
// empty. The leader computes it each second; when nobody leads it is green, and
// Reason says so. Call it on the transaction that enqueues, if you like: it
// locks nothing.
func Pressure(ctx context.Context, db DB, queue string) (QueuePressure, error) {
	query, args := pressureSQL+"sched.pressure()", []any(nil)
	if queue != "" {
		query, args = pressureSQL+"sched.pressure($1::text)", []any{queue}
	}
	var p QueuePressure
	var level string
	var retryAfter, age int64
	err := db.QueryRow(ctx, query, args...).
		Scan(&level, &p.Reason, &p.Pending, &p.MaxPending, &p.Load, &p.Workers, &retryAfter, &age)
	if err != nil {
		return QueuePressure{}, serverError("sched.pressure", err)
	}
	p.Level = Level(level)
	p.RetryAfter, p.Age = time.Duration(retryAfter)*time.Microsecond, time.Duration(age)*time.Microsecond
	return p, nil
}

const pressureSQL = `select level, coalesce(reason, ''), pending, max_pending, load::float8, workers,
	(extract(epoch from retry_after) * 1000000)::bigint, coalesce((extract(epoch from age) * 1000000)::bigint, -1)
from `

// RetryAfter is how long to wait before the next try, as an [ErrRejected] says;
// 0 for any other error.
func RetryAfter(err error) time.Duration {
	if !errors.Is(err, ErrRejected) {
		return 0
	}
	answer, ok := readAnswer(err)
	if !ok {
		return 0
	}
	// "retry after 2 seconds"
	text, _, _ := strings.Cut(strings.TrimPrefix(answer.detail, "retry after "), " ")
	seconds, err := strconv.ParseInt(text, 10, 32)
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
