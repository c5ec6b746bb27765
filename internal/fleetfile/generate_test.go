package fleetfile

import (
	"fmt"
	"time"

	"pgregory.net/rapid"
)

// Generators of anything that is valid.

func valuesOf(fields []Field) *rapid.Generator[Values] {
	return rapid.Custom(func(t *rapid.T) Values {
		values := Values{}
		for _, f := range fields {
			if rapid.Bool().Draw(t, f.Key+" is set") {
				values[f.Key] = valueOf(f).Draw(t, f.Key)
			}
		}
		base, hasBase := values["retry_base"].(time.Duration)
		most, hasMost := values["retry_cap"].(time.Duration)
		if hasBase && hasMost && most < base {
			values["retry_cap"] = base
		}
		return values
	})
}

func valueOf(f Field) *rapid.Generator[any] {
	switch {
	case f.Enum != nil:
		return rapid.SampledFrom(f.Enum).AsAny()
	case f.Pattern == kindPattern:
		return rapid.StringMatching(`[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.·:+]{0,40}`).AsAny()
	case f.Pattern == weightsPattern:
		return rapid.SampledFrom([]string{"profile", "0.4/0.3/0.3", "1/0/0"}).AsAny()
	case f.Pattern != "":
		return rapid.StringMatching(`[a-z0-9]{1,20}([_-][a-z0-9]{1,20}){0,3}`).AsAny()
	}
	switch f.Type {
	case Text:
		return rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r > 0 }), int(f.Min), 200, -1).AsAny()
	case Integer:
		return rapid.Int64Range(int64(f.Min), int64(f.Max)).AsAny()
	case Number:
		return rapid.Map(rapid.Float64Range(f.Min, f.Max).Filter(func(v float64) bool { return f.check(asReal(v)) == "" }), func(v float64) any { return asReal(v) })
	case Duration:
		return rapid.Map(rapid.Int64Range(int64(f.Min), int64(f.Max)), func(v int64) any {
			return time.Duration(v).Truncate(leastResolution)
		})
	case Flag:
		return rapid.Bool().AsAny()
	case JSON:
		return anyJSON()
	default:
		return labels().AsAny()
	}
}

func labels() *rapid.Generator[map[string]string] {
	letters := rapid.Rune().Filter(func(r rune) bool { return !isControl(r) })
	return rapid.MapOfN(rapid.StringOfN(letters, 1, maxLabel, -1), rapid.StringOfN(letters, 0, 40, -1), 0, 4)
}

func fleets() *rapid.Generator[Fleet] {
	kind := Field{Min: 1, Max: maxKind, Pattern: kindPattern}
	return rapid.Custom(func(t *rapid.T) Fleet {
		fleet := Fleet{Settings: {}, Queues: {}, Kinds: {}, Schedules: {}}
		for name, v := range valuesOf(Settings.Fields()).Draw(t, "settings") {
			fleet[Settings] = append(fleet[Settings], Entry{Name: name, Values: Values{settingKey: v}})
		}
		for _, values := range rapid.SliceOfN(valuesOf(Queues.Fields()), 0, 4).Draw(t, "queues") {
			e := Entry{Name: valueOf(identityFields()[0]).Draw(t, "name").(string), Protocol: valueOf(identityFields()[2]).Draw(t, "protocol").(string), Values: values}
			if selector := labels().Draw(t, "selector"); len(selector) > 0 {
				e.Selector = selector
			}
			fleet[Queues] = append(fleet[Queues], e)
		}
		for name, values := range rapid.MapOfN(rapid.Map(valueOf(kind), func(v any) string { return v.(string) }), valuesOf(Kinds.Fields()), 0, 4).Draw(t, "kinds") {
			fleet[Kinds] = append(fleet[Kinds], Entry{Name: name, Values: values})
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "schedules") {
			values := valuesOf(Schedules.Fields()).Draw(t, "schedule")
			values["cron"] = rapid.SampledFrom([]string{"*/5 * * * *", "@daily", "@every 90s"}).Draw(t, "cron")
			values["kind"] = valueOf(kind).Draw(t, "kind")
			values["timezone"] = rapid.SampledFrom([]string{"UTC", "Asia/Tokyo"}).Draw(t, "timezone")
			fleet[Schedules] = append(fleet[Schedules], Entry{Name: fmt.Sprintf("s%d", i), Values: values})
		}
		return fleet
	})
}

// anyJSON is what args may be.
func anyJSON() *rapid.Generator[any] {
	text := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r > 0 }), 0, 20, -1)
	leaf := rapid.OneOf(rapid.Map(text, func(s string) any { return s }), rapid.Bool().AsAny(),
		rapid.Map(rapid.Int64Range(-1<<53, 1<<53), func(n int64) any { return float64(n) }), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.Just[any](nil))
	list := rapid.Map(rapid.SliceOfN(leaf, 0, 3), func(v []any) any {
		if v == nil {
			v = []any{}
		}
		return v
	})
	return rapid.Map(rapid.MapOfN(text, rapid.OneOf(leaf, list), 0, 4), func(v map[string]any) any { return v })
}
