package routing

import (
	"encoding/json"
	"fmt"
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

// parseSettings takes them from a JSON object; what is absent is the default. A constraint
// of the table holds their types and ranges.
func parseSettings(object []byte) (settings, error) {
	next := defaultSettings()
	values := map[string]any{
		"max_pending": &next.maxPending, "pending_yellow": &next.thresholds.PendingYellow, "pending_red": &next.thresholds.PendingRed,
		"load_yellow": &next.thresholds.LoadYellow, "load_red": &next.thresholds.LoadRed, "pressure_hysteresis": &next.thresholds.Hysteresis,
		"decision_keep_days": &next.decisionKeepDays, "topology_keep_days": &next.topologyKeepDays,
		"operator_action_keep_days": &next.operatorActionDays,
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(object, &given); err != nil {
		return next, fmt.Errorf("settings: %w", err)
	}
	for key, value := range given {
		if target, ok := values[key]; ok {
			if err := json.Unmarshal(value, target); err != nil {
				return next, fmt.Errorf("setting %s: %w", key, err)
			}
		}
	}
	return next, nil
}
