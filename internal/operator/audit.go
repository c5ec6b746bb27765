package operator

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sched-sidecar/sched/sql/audit"
)

// Answer is what an audit found, in the form in which Postgres writes values.
type Answer struct {
	Columns []string
	Rows    [][]string // NULL is empty
}

// Audit asks a question. The arguments are those of [audit.Question.Bind].
func (o *Operator) Audit(ctx context.Context, q audit.Question, args map[string]any) (Answer, error) {
	var answer Answer
	err := o.ask(ctx, q.Name, q.SQL, args, func(rows pgx.Rows) error {
		row := make([]string, len(answer.Columns))
		for i, value := range rows.RawValues() {
			row[i] = string(value) // of NULL: empty
		}
		answer.Rows = append(answer.Rows, row)
		return nil
	}, func(fields []pgconn.FieldDescription) {
		for _, field := range fields {
			answer.Columns = append(answer.Columns, field.Name)
		}
	})
	return answer, err
}

// AuditJSON asks a question; the answer is an object a row.
func (o *Operator) AuditJSON(ctx context.Context, q audit.Question, args map[string]any) ([]json.RawMessage, error) {
	var list []json.RawMessage
	err := o.ask(ctx, q.Name, "SELECT row_to_json(answer)::text FROM (\n"+q.SQL+"\n) AS answer", args, func(rows pgx.Rows) error {
		list = append(list, json.RawMessage(string(rows.RawValues()[0])))
		return nil
	}, nil)
	return list, err
}

// ask runs a statement in a transaction that only reads. The arguments are sent as
// literals: it is planned for them, so that no month outside of their bounds is read.
func (o *Operator) ask(ctx context.Context, name, sql string, args map[string]any, row func(pgx.Rows) error, fields func([]pgconn.FieldDescription)) error {
	err := pgx.BeginTxFunc(ctx, o.conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('jit', 'off', true), set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true)"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol, pgx.NamedArgs(args))
		if err != nil {
			return err
		}
		defer rows.Close()
		if fields != nil {
			fields(rows.FieldDescriptions())
		}
		for rows.Next() {
			if err := row(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return translate("running the audit "+name, err)
}
