package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

// topologyEntry is what a topology says of one worker.
type topologyEntry struct {
	Hostname  string          `json:"hostname"`
	State     string          `json:"state"`
	Health    string          `json:"health"`
	Slots     int64           `json:"slots"`
	Ceiling   int64           `json:"ceiling"`
	Labels    json.RawMessage `json:"labels"`
	Protocols []string        `json:"protocols"`
	Queues    []string        `json:"queues"`
}

func topologyCommand(environ []string) *cobra.Command {
	var o operateOptions
	var at string
	var follow bool
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Show the fleet as it is, or was at a time",
		Long: `Shows the workers of the fleet with their labels, state and slots, as the newest version of
the topology has them; with --at as they were at a version or time. With --follow it goes
on to print each change as it comes, until it is interrupted. With --json: an object with
version, since, sha256 and workers, then an object a change. Exit code 3 if that version
does not exist, or what changed since is not kept any more.`,
		Args: noArgs,
	}
	o.add(cmd)
	cmd.Flags().StringVar(&at, "at", "", "a version, a time, or so long ago (2h)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each change as it comes")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, _ []string) error {
		if err := notBoth(cmd, "at", "follow"); err != nil {
			return err
		}
		moment, err := parseMoment(ctx, op, at)
		if err != nil {
			return err
		}
		topology, err := op.Topology(ctx, moment)
		if err != nil {
			return err
		}
		if err := showTopology(s, topology); err != nil || !follow {
			return err
		}

		return op.FollowTopology(ctx, topology.Version, func(c operator.TopologyChange) error { return showTopologyChange(s, c) })
	})
	cmd.AddCommand(topologyDiffCommand(environ))

	return cmd
}

// parseMoment reads a version, a time or how long ago.
func parseMoment(ctx context.Context, op *operator.Operator, text string) (operator.Moment, error) {
	if text == "" || text == "now" {
		return operator.Moment{}, nil
	}
	if version, err := strconv.ParseInt(text, 10, 64); err == nil {
		if version < 1 {
			return operator.Moment{}, &usageError{fmt.Errorf("%q is no version: they count up from 1", text)}
		}

		return operator.Moment{Version: version}, nil
	}
	var v momentValue
	if err := v.Set(text); err != nil {
		return operator.Moment{}, &usageError{fmt.Errorf("%w, or a version", err)}
	}
	now, err := op.Now(ctx)
	if err != nil {
		return operator.Moment{}, err
	}

	return operator.Moment{Time: v.at(now)}, nil
}

func showTopology(s *screen, topology operator.Topology) error {
	if s.json {
		return s.object(topology)
	}
	if err := s.say("%s", topologyTitle(topology)); err != nil || len(topology.Workers) == 0 {
		return err
	}
	t := table{columns: []column{
		{title: "WORKER"},
		{title: "HOST", flexible: true},
		{title: "STATE"},
		{title: "HEALTH"},
		{title: "SLOTS", right: true},
		{title: "CEILING", right: true, spare: true},
		{title: "SERVES", flexible: true, optional: true},
		{title: "LABELS", flexible: true, optional: true},
	}}
	for _, id := range slices.Sorted(maps.Keys(topology.Workers)) {
		e, err := entryOf(topology.Workers[id])
		if err != nil {
			return err
		}
		serves := strings.Join(e.Protocols, ",")
		if e.Queues != nil {
			serves += "; queues " + strings.Join(e.Queues, ",")
		}
		t.add(map[int]color{3: healthColor(e.Health)}, id, e.Hostname, e.State, e.Health, number(e.Slots), number(e.Ceiling), serves, pairs(e.Labels))
	}

	return t.write(s.out, s.width, s.color)
}

func entryOf(entry json.RawMessage) (topologyEntry, error) {
	var e topologyEntry
	err := json.Unmarshal(entry, &e)

	return e, err
}

func topologyTitle(topology operator.Topology) string {
	title := fmt.Sprintf("topology %d: %s", topology.Version, plural(len(topology.Workers), "worker"))
	if topology.Since != nil {
		title += ", since " + localTime(*topology.Since)
	}
	if topology.SHA256 != "" {
		title += ", sha256 " + topology.SHA256[:min(len(topology.SHA256), 12)]
	}

	return title
}

func topologyDiffCommand(environ []string) *cobra.Command {
	var o operateOptions
	cmd := &cobra.Command{
		Use:   "diff FROM [TO]",
		Short: "Show what changed in the fleet from one version or time to another",
		Long: `Shows which workers came (+), went (-) and changed (~) from one version or time to
another, or to now. With --json an object a worker, with its entry before and after. Exit
code 3 as of "sched topology".`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}

			return exactArgs("FROM", "TO")(cmd, args)
		},
	}
	o.add(cmd)
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		from, err := parseMoment(ctx, op, args[0])
		if err != nil {
			return err
		}
		to, err := parseMoment(ctx, op, append(args, "now")[1])
		if err != nil {
			return err
		}
		a, b, changes, err := op.TopologyDiff(ctx, from, to)
		if err != nil {
			return err
		}
		if !s.json {
			s.note("from %s\nto   %s", topologyTitle(a), topologyTitle(b))
		}
		for _, c := range changes {
			if err := showTopologyChange(s, c); err != nil {
				return err
			}
		}

		return nil
	})

	return cmd
}

func showTopologyChange(s *screen, c operator.TopologyChange) error {
	if s.json {
		return s.object(c)
	}
	mark, text := "~", ""
	switch c.What {
	case "join":
		mark, text = "+", valuesText(c.After)
	case "leave":
		mark = "-"
	default:
		text = fieldChanges(c.Before, c.After)
	}
	at := ""
	if !c.At.Equal(time.Time{}) {
		at = localTime(c.At) + "  "
	}

	return s.say("%s", strings.TrimRight(clean(fmt.Sprintf("%s%s %s  %s", at, mark, c.WorkerID, text)), " "))
}

// fieldChanges says which keys of two JSON objects differ.
func fieldChanges(before, after json.RawMessage) string {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil {
		return ""
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(is))
	slices.Sort(keys)
	var parts []string
	for _, key := range slices.Compact(keys) {
		if string(was[key]) != string(is[key]) {
			parts = append(parts, fmt.Sprintf("%s %s → %s", key, valueOrNone(was[key]), valueOrNone(is[key])))
		}
	}

	return strings.Join(parts, ", ")
}

func valueOrNone(value json.RawMessage) string {
	if value == nil {
		return none
	}

	return strings.Trim(string(value), `"`)
}
