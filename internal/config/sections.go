package config

import "time"

const (
	secondNs = float64(time.Second)
	hourNs   = float64(time.Hour)
	milliNs  = float64(time.Millisecond)
)

// Sections returns the table of keys, in the order of docs/config.md.
func Sections() []Section {
	return []Section{
		{"Database and app", connectionFields()},
		{"What this sidecar takes", intakeFields()},
		{"One task", taskFields()},
		{"Timing", timingFields()},
		{"Admin and log", adminFields()},
	}
}

func connectionFields() []Field {
	return []Field{
		{
			Key: "database.url", Values: "postgres://user:password@host:5432/db or host=… user=…",
			Doc: "The Postgres database that holds the tasks. Not set anywhere: DATABASE_URL, and without that the PG* variables and libpq's defaults.",
		},
		{
			Key: "database.listen_url", Values: "as database.url, or empty",
			Doc: "Where to listen for notifications when database.url leads to a pooler in transaction mode. Empty: database.url. A sidecar that hears nothing says so, and polls.",
		},
		{
			Key: "database.pool_max", Min: 4, Max: 1000,
			Doc:    "The most connections that this sidecar works with; one more listens.",
			Advice: "4 are needed to claim, settle, beat and lead at once; above some tens put a pooler or more sidecars to work",
		},
		{
			Key: "app.protocol", Values: "http, grpc or exec",
			Doc: "How tasks are handed to the app: http posts each to app.url; grpc lets the app open sessions at app.listen, the fast way; exec runs app.command for each.",
		},
		{
			Key: "app.url", Values: "http://host:port, https://host:port or unix:///path/to.sock, h2c://host:port or h2c+unix:///path/to.sock; then a path if need be (after : for a socket)",
			Doc: "http: where tasks are delivered: POST {app.url}/{kind}. h2c: the app speaks HTTP/2 without TLS.",
		},
		{
			Key: "app.health_path", Values: "empty, or a path that starts with /",
			Doc: "http: asked for with GET to see whether the app lives; any answer will do. Empty: a TCP connection is sign enough.",
		},
		{
			Key: "app.secrets", NoFlag: true, Values: "whsec_ and the base64 of 24 to 64 bytes, each",
			Doc: "http: sign every delivery in the form of Standard Webhooks. While secrets are being rotated list the new and the old: each adds a signature. Empty: no signature.",
		},
		{
			Key: "app.send_api", Values: "true or false",
			Doc: "http: tell the app with every task, in the header Sched-Api, where this sidecar's API takes what becomes of it: for apps that answer 202 and settle later.",
		},
		{
			Key: "app.listen", Values: "unix:///path/to.sock, or host:port on loopback",
			Doc: "grpc: where the app opens its sessions. Nobody logs in there: keep it to this machine.",
		},
		{
			Key: "app.command", Values: "a command and its arguments, one by one",
			Doc: "exec: what is run for each task, without a shell: args on standard input, the rest in variables SCHED_*. As a variable or flag: separated by commas.",
		},
		{
			Key: "app.pid_file", Values: "a path, or empty",
			Doc: "A file with the process id of the app, whose cpu and memory are then measured with those of all its descendants: its load. Read each second. Not needed for a command of run: its process is known. Empty: the app's load isn't known, and the sidecar's cgroup or machine is measured for people to look at.",
		},
	}
}

func intakeFields() []Field {
	return []Field{
		{
			Key: "queues", Values: "base names: lower-case letters, digits, single - and _",
			Doc: "Claim from these queues only. Empty: from all.",
		},
		{
			Key: "kinds", Values: "names of kinds",
			Doc: "Claim these kinds only. Empty: all.",
		},
		{
			Key: "labels", Values: "key: value pairs of text",
			Doc: "What a task's selector is matched against: all of its pairs must be here. These come by themselves, unless they are given another value here: os and arch (as Go names them), hostname, cpus and memory_gib (what this process may use, in whole numbers), and gpu_vendor and gpu_count where there are device files of GPUs. As a variable or flag: zone=a,gpu=yes.",
		},
		{
			Key: "slots.ceiling", Min: 1, Max: 5000,
			Doc:    "The most tasks that run at once here.",
			Advice: "one sidecar carries up to 5000; more sidecars carry more",
		},
		{
			Key: "slots.initial", Min: 0, Max: 5000, Values: "0 to slots.ceiling",
			Doc:    "How many tasks may run at once to begin with. 0: the ceiling.",
			Advice: "at most slots.ceiling",
		},
		{
			Key: "elastic", Values: "off, observe or on",
			Doc: "Whether the slots follow what arrives and what the app bears, up to slots.ceiling. on: they begin at slots.initial, or 8. observe: they stay, and what would be decided is told in metrics and sched.decision.",
		},
		{
			Key: "tokens.rate", Min: 0, Max: 1_000_000,
			Doc:    "The most tasks that this sidecar claims a second, to protect its app. 0: no bound.",
			Advice: "a sidecar alone doesn't claim more than 1000000 a second; 0 sets no bound",
		},
		{
			Key: "tokens.burst", Min: 1, Max: 1_000_000,
			Doc:    "How many it may claim at once after a quiet time, above tokens.rate.",
			Advice: "1 evens claims out; two seconds of tokens.rate is the default's measure",
		},
	}
}

func taskFields() []Field {
	return []Field{
		{
			Key: "default_timeout", Min: milliNs, Max: 168 * hourNs,
			Doc:    "How long an attempt may take when its task doesn't say.",
			Advice: "work longer than a week is better cut into tasks",
		},
		{
			Key: "max_response_bytes", Min: 1 << 10, Max: 64 << 20,
			Doc:    "The longest answer of the app that is kept, in bytes. A task whose answer is longer completes without output.",
			Advice: "the answer is stored with the task: keep large results elsewhere and answer with where",
		},
		{
			Key: "retry.base", Min: milliNs, Max: hourNs,
			Doc:    "The delay before the second attempt; it doubles with each further one.",
			Advice: "start shorter: the delay doubles by itself",
		},
		{
			Key: "retry.cap", Min: milliNs, Max: 24 * hourNs,
			Doc:    "The longest delay between attempts; at least retry.base.",
			Advice: "a task that is tried less than daily is better enqueued again by hand",
		},
		{
			Key: "retry.jitter", Min: 0, Max: 1,
			Doc:    "By what share of itself a delay varies at random, up or down, so that tasks that failed together don't return together.",
			Advice: "0.2 is plus or minus 20 %",
		},
	}
}

func timingFields() []Field {
	return []Field{
		{
			Key: "poll_interval", Min: 10 * milliNs, Max: secondNs,
			Doc:    "How often an idle sidecar looks for tasks that no notification announced; jittered.",
			Advice: "a second bounds how late a task whose wake-up was lost can start; more often than every 10ms is work for nothing",
		},
		{
			Key: "heartbeat_interval", Min: 50 * milliNs, Max: 60 * secondNs,
			Doc:    "How often the sidecar shows that it lives. Three must fit into fence_after.",
			Advice: "the same on every sidecar; 5s is well tried",
		},
		{
			Key: "fence_after", Min: 150 * milliNs, Max: 600 * secondNs,
			Doc:    "Without a heartbeat for this long the sidecar stops claiming and cancels what it runs, before others take it over. At least three heartbeat_interval, less than evict_after.",
			Advice: "between three heartbeats and evict_after",
		},
		{
			Key: "evict_after", Min: 200 * milliNs, Max: 1200 * secondNs,
			Doc:    "A sidecar whose heartbeat stands still for this long is taken for dead and its tasks run elsewhere. The same on every sidecar: whichever leads applies its own.",
			Advice: "longer than fence_after",
		},
		{
			Key: "shutdown_grace", Min: 0, Max: hourNs,
			Doc:    "How long a shutdown may take. Running tasks may finish in all but its last quarter (at most 5s), in which what is left is handed back unspent. Not above the grace period of whatever stops the process (Kubernetes: 30s).",
			Advice: "0 hands everything back at once",
		},
	}
}

func adminFields() []Field {
	return []Field{
		{
			Key: "admin.addr", Values: "host:port; port 0 takes a free one",
			Doc: "Where metrics, health and the console are served. Without a host: on loopback.",
		},
		{
			Key: "admin.expose", Values: "true or false",
			Doc: "Allows an admin.addr that other machines reach. There is no login: put a network policy before it.",
		},
		{
			Key: "admin.pprof", Values: "true or false",
			Doc: "Serves Go's profiles under /debug/pprof/ there.",
		},
		{
			Key: "admin.metrics", Values: "true or false",
			Doc: "Serves /metrics there, and measures each task for it. false: there is no such page, and tasks cost a little less.",
		},
		{
			Key: "console.enabled", Values: "true or false",
			Doc: "Serves the console, pages that show the fleet to people, under /console there. Where admin.addr can be reached from other machines it is off until console.token or console.password is set.",
		},
		{
			Key: "console.token", NoFlag: true, Values: "empty, or 16 characters or more",
			Doc: "Asked for before the console shows anything: in a form, or as Authorization: Bearer. Nothing else on the listener asks for it. Empty: no token.",
		},
		{
			Key: "console.user", Values: "empty, or a name without :",
			Doc: "Who logs in with console.password. Empty: sched.",
		},
		{
			Key: "console.password", NoFlag: true, Values: "empty, or 12 characters or more",
			Doc: "Asked for by the browser (HTTP basic authentication) before the console shows anything. Empty: no password.",
		},
		{
			Key: "console.river_ui_url", Values: "empty, or http://… or https://…",
			Doc: "Where River UI of this database is: the console links there.",
		},
		{
			Key: "log.level", Values: "debug, info, warn or error",
			Doc: "The least level that is logged.",
		},
		{
			Key: "log.format", Values: "text or json",
			Doc: "How a line of the log is written, on standard error.",
		},
	}
}
