package jobs

import "encoding/json"

// Args is what a task works on. A kind has one Go type, whose fields are
// marshalled with encoding/json and reach the app as the request's body:
//
//	type SendEmail struct {
//		To string `json:"to"`
//	}
//
//	func (SendEmail) Kind() string { return "email.send" }
type Args interface {
	// Kind names the handler in the app, with http the path after its URL:
	// 1 to 127 ASCII characters, a letter, a digit or an underscore first,
	// then also any of - [ ] < > / . : +.
	Kind() string
}

// ArgsWithOptions is implemented by [Args] whose kind has options of its own:
// every enqueue of the kind uses them, and options at the call override them.
type ArgsWithOptions interface {
	Args
	EnqueueOptions() []Option
}

// Raw returns args for callers that have no Go type for the kind: a relay, a
// test, a command-line tool. The JSON is stored as it is; nil or empty means
// the SQL API's default, {}.
func Raw(kind string, args json.RawMessage) Args {
	return rawArgs{kind: kind, json: args}
}

type rawArgs struct {
	kind string
	json json.RawMessage
}

func (r rawArgs) Kind() string { return r.kind }

// Task is one task for [EnqueueMany].
type Task struct {
	Args    Args
	Options []Option
}

// params renders the task as arguments of sched.enqueue. What fails here
// fails before anything is sent, so the caller's transaction stays usable.
func (t Task) params(o *options) ([]param, error) {
	var list paramList
	if t.Args == nil {
		list.refuse("args are nil; pass a value with a Kind method, or jobs.Raw")
		return nil, list.err
	}
	kind := t.Args.Kind()
	list.addText("kind", &kind)
	body, err := marshalArgs(t.Args)
	if err != nil {
		list.refuse("args of kind %q are no JSON: %w", kind, err)
	}
	if len(body) > 0 {
		list.add("args", "jsonb", body)
	}

	o.addTo(&list)
	return list.params, list.err
}

// options are those of the kind, and above them those of the call.
func (t Task) options() *options {
	o := &options{}
	if own, ok := t.Args.(ArgsWithOptions); ok {
		o.apply(own.EnqueueOptions())
	}
	o.apply(t.Options)
	return o
}

func marshalArgs(args Args) (json.RawMessage, error) {
	raw, ok := args.(rawArgs)
	if !ok {
		return json.Marshal(args)
	}
	if len(raw.json) == 0 {
		return nil, nil
	}
	// Marshalling a RawMessage checks it.
	return json.Marshal(raw.json)
}
