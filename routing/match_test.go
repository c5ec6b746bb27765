package routing_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/routing"
)

func member(id string, labels map[string]string) *routing.Member {
	return &routing.Member{
		ID: id, Labels: labels, Protocols: []string{"http"}, State: routing.StateActive, Health: routing.Good, Slots: 10, Ceiling: 10,
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"gpu": "true", "empty": "", "zone": "a"}
	narrowed := member("w", labels)
	narrowed.Bases = []string{"mail"}
	for name, test := range map[string]struct {
		m    *routing.Member
		d    routing.Demand
		want bool
	}{
		"no demand":               {member("w", nil), routing.Demand{Base: "q", Protocol: "any"}, true},
		"a pair":                  {member("w", labels), routing.Demand{Selector: map[string]string{"gpu": "true"}, Protocol: "any"}, true},
		"all pairs":               {member("w", labels), routing.Demand{Selector: labels, Protocol: "any"}, true},
		"another value":           {member("w", labels), routing.Demand{Selector: map[string]string{"gpu": "True"}, Protocol: "any"}, false},
		"one of two":              {member("w", labels), routing.Demand{Selector: map[string]string{"gpu": "true", "zone": "b"}, Protocol: "any"}, false},
		"an unknown key":          {member("w", labels), routing.Demand{Selector: map[string]string{"unheard": "of"}, Protocol: "any"}, false},
		"an empty value":          {member("w", labels), routing.Demand{Selector: map[string]string{"empty": ""}, Protocol: "any"}, true},
		"an empty value, no key":  {member("w", nil), routing.Demand{Selector: map[string]string{"empty": ""}, Protocol: "any"}, false},
		"an empty value, another": {member("w", labels), routing.Demand{Selector: map[string]string{"gpu": ""}, Protocol: "any"}, false},
		"its protocol":            {member("w", nil), routing.Demand{Protocol: "http"}, true},
		"another protocol":        {member("w", nil), routing.Demand{Protocol: "grpc"}, false},
		"its queue":               {narrowed, routing.Demand{Base: "mail", Protocol: "any"}, true},
		"another queue":           {narrowed, routing.Demand{Base: "sms", Protocol: "any"}, false},
	} {
		require.Equal(t, test.want, test.m.Serves(test.d), name)
	}
}

func TestUnsatisfied(t *testing.T) {
	t.Parallel()
	gpu := member("w-1", map[string]string{"gpu": "true"})
	zone := member("w-2", map[string]string{"zone": "a"})
	zone.Protocols = []string{"grpc"}
	draining := member("w-3", map[string]string{"tpu": "true"})
	draining.State = routing.StateDraining
	narrowed := member("w-4", nil)
	narrowed.Bases = []string{"mail"}
	hundred := map[string]string{}
	for i := range 100 {
		hundred[fmt.Sprintf("k%02d", i)] = "v"
	}
	fleet := []*routing.Member{gpu, zone, draining}
	for name, test := range map[string]struct {
		d       routing.Demand
		members []*routing.Member
		want    string
	}{
		"served":                {routing.Demand{Selector: map[string]string{"gpu": "true"}, Protocol: "any"}, fleet, ""},
		"nobody lives":          {routing.Demand{Selector: map[string]string{"gpu": "true"}, Protocol: "any"}, nil, ""},
		"only draining":         {routing.Demand{Selector: map[string]string{"tpu": "true"}, Protocol: "any"}, []*routing.Member{draining}, ""},
		"a pair":                {routing.Demand{Selector: map[string]string{"gpu": "false"}, Protocol: "any"}, fleet, "gpu=false"},
		"a pair of a draining":  {routing.Demand{Selector: map[string]string{"tpu": "true"}, Protocol: "any"}, fleet, "tpu=true"},
		"only what is missing":  {routing.Demand{Selector: map[string]string{"gpu": "true", "x": ""}, Protocol: "any"}, fleet, "x="},
		"a protocol":            {routing.Demand{Protocol: "exec"}, fleet, "protocol exec"},
		"a pair and a protocol": {routing.Demand{Selector: map[string]string{"x": "y"}, Protocol: "exec"}, fleet, "x=y, protocol exec"},
		"two pairs apart":       {routing.Demand{Selector: map[string]string{"gpu": "true", "zone": "a"}, Protocol: "any"}, fleet, "gpu=true together with zone=a"},
		"pair and protocol":     {routing.Demand{Selector: map[string]string{"gpu": "true"}, Protocol: "grpc"}, fleet, "gpu=true together with protocol grpc"},
		"a queue":               {routing.Demand{Base: "sms", Protocol: "any"}, []*routing.Member{narrowed}, "this queue"},
		"a hundred":             {routing.Demand{Selector: hundred, Protocol: "any"}, fleet, "k00=v, k01=v, k02=v, k03=v, k04=v, 95 more"},
		"three, each two together": {
			routing.Demand{Selector: map[string]string{"a": "1", "b": "1", "c": "1"}, Protocol: "any"},
			[]*routing.Member{
				member("1", map[string]string{"a": "1", "b": "1"}), member("2", map[string]string{"b": "1", "c": "1"}), member("3", map[string]string{"a": "1", "c": "1"}),
			},
			"a=1 together with b=1 together with c=1 together with this queue",
		},
	} {
		require.Equal(t, test.want, routing.Unsatisfied(test.d, test.members), name)
	}
}

// Something is unsatisfied exactly when nobody who takes work serves it; and what is
// named as lacking, nobody offers.
func TestUnsatisfiedNamesWhatNobodyOffers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t)
		d := drawDemand(t)
		said := routing.Unsatisfied(d, members)
		takers := slices.DeleteFunc(slices.Clone(members), func(m *routing.Member) bool {
			return m.State != routing.StateActive && m.State != routing.StatePending
		})
		served := slices.ContainsFunc(takers, func(m *routing.Member) bool { return m.Serves(d) })
		require.Equal(t, served || len(takers) == 0, said == "", said)
		for key, value := range d.Selector {
			offered := slices.ContainsFunc(takers, func(m *routing.Member) bool { return m.Labels[key] == value })
			if said != "" && !offered {
				require.Contains(t, said, key+"="+value)
			}
		}
	})
}

func drawMembers(t *rapid.T) []*routing.Member {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) *routing.Member {
		ceiling := rapid.IntRange(1, 50).Draw(t, "ceiling")
		slots := rapid.IntRange(0, ceiling).Draw(t, "slots")
		return &routing.Member{
			ID:        fmt.Sprintf("w-%d", rapid.IntRange(0, 99).Draw(t, "id")),
			Labels:    rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"1", "2"})).Draw(t, "labels"),
			Protocols: rapid.SampledFrom([][]string{{"http"}, {"grpc"}, {"http", "grpc"}}).Draw(t, "protocols"),
			Bases:     rapid.SampledFrom([][]string{nil, nil, {"mail"}}).Draw(t, "bases"),
			State:     rapid.SampledFrom([]routing.State{routing.StateActive, routing.StateActive, routing.StatePending, routing.StateDraining}).Draw(t, "state"),
			Health:    rapid.SampledFrom([]routing.Health{routing.Good, routing.Good, routing.Strained, routing.Overloaded}).Draw(t, "health"),
			Held:      rapid.IntRange(0, 4).Draw(t, "held") == 0, Polling: rapid.IntRange(0, 9).Draw(t, "polling") == 0,
			Ceiling: ceiling, Slots: slots, Running: rapid.IntRange(0, ceiling).Draw(t, "running"),
		}
	}), 0, 40, func(m *routing.Member) string { return m.ID }).Draw(t, "members")
}

func drawDemand(t *rapid.T) routing.Demand {
	return routing.Demand{
		Base:     rapid.SampledFrom([]string{"mail", "sms"}).Draw(t, "base"),
		Selector: rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "d"}), rapid.SampledFrom([]string{"1", "2"})).Draw(t, "selector"),
		Protocol: rapid.SampledFrom([]string{"any", "http", "grpc"}).Draw(t, "protocol"),
	}
}

func TestPlanWeights(t *testing.T) {
	t.Parallel()
	whatever := routing.Demand{Base: "q", Protocol: "any"}
	with := func(change func(*routing.Member)) *routing.Member {
		m := member("w", nil)
		m.Slots = 40
		change(m)
		return m
	}
	for name, test := range map[string]struct {
		m               *routing.Member
		least, inTurn   int
		reason, reasonT string
	}{
		"good":       {with(func(*routing.Member) {}), 40, 100, "any worker may run it; 40 slots", "any worker may run it; each in turn"},
		"busy":       {with(func(m *routing.Member) { m.Running = 40 }), 40, 100, "any worker may run it; 40 slots", "any worker may run it; each in turn"},
		"strained":   {with(func(m *routing.Member) { m.Health = routing.Strained }), 20, 50, "any worker may run it; 40 slots; weight halved to 20: strained", "any worker may run it; each in turn; weight halved to 50: strained"},
		"one slot":   {with(func(m *routing.Member) { m.Health, m.Slots = routing.Strained, 1 }), 1, 50, "any worker may run it; 1 slots; weight halved to 1: strained", "any worker may run it; each in turn; weight halved to 50: strained"},
		"overloaded": {with(func(m *routing.Member) { m.Health = routing.Overloaded }), 0, 0, "", ""},
		"draining":   {with(func(m *routing.Member) { m.State = routing.StateDraining }), 0, 0, "", ""},
		"pending":    {with(func(m *routing.Member) { m.State = routing.StatePending }), 0, 0, "", ""},
		"held":       {with(func(m *routing.Member) { m.Held = true }), 40, 100, "any worker may run it; 40 slots", "any worker may run it; each in turn"},
		"held long":  {with(func(m *routing.Member) { m.Held, m.HeldLong = true, true }), 0, 0, "", ""},
		"no slots":   {with(func(m *routing.Member) { m.Slots = 0 }), 0, 0, "", ""},
	} {
		least := routing.Plan(whatever, routing.LeastLoaded, []*routing.Member{test.m}, nil)["w"]
		inTurn := routing.Plan(whatever, routing.RoundRobin, []*routing.Member{test.m}, nil)["w"]
		require.Equal(t, test.least, least.Weight, name)
		require.Equal(t, test.inTurn, inTurn.Weight, name)
		require.Equal(t, test.reason, least.Reason, name)
		require.Equal(t, test.reasonT, inTurn.Reason, name)
	}
	gpu := routing.Demand{Selector: map[string]string{"gpu": "true", "zone": "a"}, Protocol: "http"}
	plan := routing.Plan(gpu, routing.LeastLoaded, []*routing.Member{member("w", gpu.Selector)}, nil)
	require.Equal(t, "labels match gpu=true, zone=a; speaks http; 10 slots", plan["w"].Reason)
}

// Only who serves is in the plan, each above zero; and a plan that is planned again
// from itself, or with slots a little different, is the same.
func TestPlanIsStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members, d := drawMembers(t), drawDemand(t)
		strategy := rapid.SampledFrom([]routing.Strategy{routing.LeastLoaded, routing.RoundRobin}).Draw(t, "strategy")
		plan := routing.Plan(d, strategy, members, nil)
		for _, m := range members {
			share, ok := plan[m.ID]
			require.False(t, ok && (!m.Serves(d) || m.State != routing.StateActive || m.Health == routing.Overloaded || m.Slots == 0))
			require.True(t, !ok || share.Weight > 0)
		}
		for _, m := range members {
			m.Running = rapid.IntRange(0, 50).Draw(t, "running")
			if m.Slots > 10 && m.Health != routing.Strained {
				m.Slots += rapid.IntRange(-1, 1).Draw(t, "slots")
			}
		}
		require.True(t, maps.Equal(plan, routing.Plan(d, strategy, members, plan)))
	})
}
