package routing

import (
	"context"
	"fmt"
	"strconv"
)

// settings are those of sched.setting that the leader goes by.
type settings struct {
	maxPending         int
	thresholds         Thresholds
	decisionKeepDays   int
	topologyKeepDays   int
	operatorActionDays int
}

func defaultSettings() settings {
	return settings{
		maxPending: 1000, thresholds: DefaultThresholds(),
		decisionKeepDays: 30, topologyKeepDays: 7, operatorActionDays: 365,
	}
}

func settingKeys() []string {
	return []string{
		"max_pending", "pending_yellow", "pending_red", "load_yellow", "load_red", "pressure_hysteresis",
		"decision_keep_days", "topology_keep_days", "operator_action_keep_days",
	}
}

// readSettings reads them; what is absent is the default.
func (r *Router) readSettings(ctx context.Context) error {
	rows, err := r.q.RoutingSettings(ctx, settingKeys())
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	next := defaultSettings()
	numbers := map[string]*float64{
		"pending_yellow": &next.thresholds.PendingYellow, "pending_red": &next.thresholds.PendingRed,
		"load_yellow": &next.thresholds.LoadYellow, "load_red": &next.thresholds.LoadRed,
		"pressure_hysteresis": &next.thresholds.Hysteresis,
	}
	integers := map[string]*int{
		"max_pending": &next.maxPending, "decision_keep_days": &next.decisionKeepDays,
		"topology_keep_days": &next.topologyKeepDays, "operator_action_keep_days": &next.operatorActionDays,
	}
	for _, row := range rows {
		// A constraint of the table holds their types and ranges.
		number, err := strconv.ParseFloat(row.Value, 64)
		if err != nil {
			return fmt.Errorf("setting %s: %w", row.Key, err)
		}
		if target, ok := numbers[row.Key]; ok {
			*target = number
		}
		if target, ok := integers[row.Key]; ok {
			*target = int(number)
		}
	}
	r.settings = next
	return nil
}
