package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// Batch is a row of sched.batch.
type Batch struct {
	Batch        string     `json:"batch"`
	Total        int64      `json:"total"`
	Available    int64      `json:"available"`
	Scheduled    int64      `json:"scheduled"`
	Running      int64      `json:"running"`
	Retryable    int64      `json:"retryable"`
	Pending      int64      `json:"pending"`
	Completed    int64      `json:"completed"`
	Cancelled    int64      `json:"cancelled"`
	Discarded    int64      `json:"discarded"`
	Finished     int64      `json:"finished"`
	Progress     float64    `json:"progress"` // 0 to 1
	FirstCreated time.Time  `json:"first_created"`
	LastEnded    *time.Time `json:"last_ended"`

	JSON json.RawMessage `json:"-"`
}

func keepBatch(b *Batch, row json.RawMessage) { b.JSON = row }

// Batches lists up to limit batches by name, those after a name.
func (o *Operator) Batches(ctx context.Context, after string, limit int) ([]Batch, error) {
	var rows [][]byte
	err := o.read(ctx, "listing batches", func(q *dbq.Queries) (err error) {
		rows, err = q.BatchList(ctx, dbq.BatchListParams{AfterName: after, Max: int32(limit)})
		return err
	})
	if err != nil {
		return nil, err
	}
	return decodeAll(rows, keepBatch)
}

// Batch returns the progress of one batch, and [ErrNotFound] when no task is in it.
func (o *Operator) Batch(ctx context.Context, name string) (Batch, error) {
	var row []byte
	err := o.read(ctx, "batch "+name, func(q *dbq.Queries) (err error) {
		row, err = q.BatchOne(ctx, name)
		return err
	})
	if err != nil {
		return Batch{}, err
	}
	list, err := decodeAll([][]byte{row}, keepBatch)
	if err != nil {
		return Batch{}, err
	}
	return list[0], nil
}
