package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// Decision is something that sched decided by itself.
type Decision struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	What    string          `json:"what"`
	Subject string          `json:"subject"`
	Who     string          `json:"who"` // worker that decided
	From    string          `json:"from_value"`
	To      string          `json:"to_value"`
	Reason  string          `json:"reason"`
	Signals json.RawMessage `json:"signals"`

	JSON json.RawMessage `json:"-"`
}

// LogFilter narrows a log; what is empty does not.
type LogFilter struct {
	Subject, What string // of decisions

	Action, ObjectType, Object, User string // of interventions

	Since, Until time.Time
}

// Decisions lists up to limit decisions, the latest first.
func (o *Operator) Decisions(ctx context.Context, f LogFilter, limit int) ([]Decision, error) {
	rows, err := o.q.DecisionList(ctx, dbq.DecisionListParams{
		Since: nullTime(f.Since), Until: nullTime(f.Until), Subject: nullText(f.Subject), What: nullText(f.What), Max: int32(limit),
	})
	if err != nil {
		return nil, translate("listing decisions", err)
	}
	return decodeAll(rows, func(d *Decision, row json.RawMessage) { d.JSON = row })
}

// Intervention is something that a person, or a program for one, did.
type Intervention struct {
	ID          int64           `json:"id"`
	At          time.Time       `json:"at"`
	Action      string          `json:"action"`
	ObjectType  string          `json:"object_type"`
	Object      string          `json:"object"`
	Before      json.RawMessage `json:"before"`
	After       json.RawMessage `json:"after"`
	User        string          `json:"db_user"`
	Application string          `json:"application_name"`

	JSON json.RawMessage `json:"-"`
}

// Interventions lists up to limit interventions, the latest first.
func (o *Operator) Interventions(ctx context.Context, f LogFilter, limit int) ([]Intervention, error) {
	rows, err := o.q.ActionList(ctx, dbq.ActionListParams{
		Since: nullTime(f.Since), Until: nullTime(f.Until), Action: nullText(f.Action), ObjectType: nullText(f.ObjectType),
		DbUser: nullText(f.User), Object: nullText(f.Object), Max: int32(limit),
	})
	if err != nil {
		return nil, translate("listing interventions", err)
	}
	return decodeAll(rows, func(i *Intervention, row json.RawMessage) { i.JSON = row })
}
