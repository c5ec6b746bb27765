package dev

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sched-sidecar/sched/examples/hello"
	"github.com/sched-sidecar/sched/internal/app"
)

// The two statements that show the most at once.
const (
	enqueueCommand = `psql "$DSN" -c "select sched.enqueue('hello', '{\"name\":\"Ann\"}')"`
	lookCommand    = `psql "$DSN" -c "select id, kind, status, attempt, output, error from sched.task"`
)

// banner says what runs and what to do next.
func (s *server) banner(p *postgres, chosen *places) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	if len(s.opts.Command) == 0 {
		b.WriteString(s.nextSteps()) // first, since it's long
	}
	notes := append(s.notesOn(p), chosen.notes...)
	say("\nPostgres %s is up and has the schema sched. In another terminal:\n", p.version)
	say("  export DSN='%s'", p.dsn)
	say("  %s", enqueueCommand)
	say("  %s", lookCommand)
	say("  %s explain 1 --dsn \"$DSN\"\n", s.opts.Program)
	kept := "kept from run to run in " + p.server.Dir()
	if s.opts.Ephemeral {
		kept = "thrown away in the end"
	}
	say("  data   %s", kept)
	if port := app.PortOf(s.cfg.App.URL); port != "" && len(s.opts.Command) > 0 {
		say("  app    %s: it is given PORT=%s, and DATABASE_URL", s.cfg.App.URL, port)
	} else {
		say("  app    %s", s.cfg.App.URL)
	}
	s.sayAdmin(say)
	for _, note := range notes {
		say("  note   %s", note)
	}
	say("\nCtrl-C stops all of it.\n")
	return b.String()
}

func (s *server) sayAdmin(say func(string, ...any)) {
	addr := s.cfg.Admin.ListenAddr()
	if _, port, err := net.SplitHostPort(addr); err == nil && port == "0" {
		say("  admin  on any free port, which the sidecar says below: addr=…")
		return
	}
	if s.cfg.Console.Enabled {
		say("  look   http://%s/console/: the fleet, its queues and tasks, live", addr)
	}
	say("  admin  http://%s/status and /metrics", addr)
}

func (s *server) notesOn(p *postgres) []string {
	var notes []string
	switch was := portOfDSN(p.lastDSN); {
	case s.opts.Ephemeral || s.opts.Port != 0:
	case was == 0 && p.server.Port() != firstPort:
		notes = append(notes, fmt.Sprintf("port %d is taken, so Postgres is on %d, and will be from now on", firstPort, p.server.Port()))
	case was != 0 && p.server.Port() != was:
		notes = append(notes, fmt.Sprintf("port %d is taken, so Postgres is on %d: export DSN anew", was, p.server.Port()))
	}
	for _, name := range DatabaseVariables() {
		if variable(s.opts.Environ, name) != "" {
			notes = append(notes, name+" of this shell is not used: the app gets the database above")
		}
	}
	if _, err := exec.LookPath("psql"); err != nil {
		notes = append(notes, psqlNote(p.server.BinDir()))
	}
	return notes
}

func psqlNote(binDir string) string {
	beside := filepath.Join(binDir, "psql")
	if path, err := exec.LookPath(beside); err == nil {
		return "psql is not in PATH; there is " + path
	}
	return "psql is not installed (Debian: apt-get install postgresql-client; macOS: brew install libpq); any other client of Postgres does"
}

// nextSteps is for those who have no app yet, or run it themselves.
func (s *server) nextSteps() string {
	port := ""
	if p := app.PortOf(s.cfg.App.URL); p != defaultAppPort {
		port = "PORT=" + p + " "
	}
	return fmt.Sprintf(`
There is no app yet. Whatever answers HTTP on %s gets each task as POST /{kind}; until it does, tasks wait. Two to
paste into another terminal:

cat > app.js <<'EOF'
%sEOF
%snode app.js

cat > app.py <<'EOF'
%sEOF
%spython3 app.py

"%s dev -- node app.js" starts and stops the app with the rest, "%[6]s dev --app-url http://127.0.0.1:3000" expects it elsewhere.
`, s.cfg.App.URL, hello.Node, port, hello.Python, port, s.opts.Program)
}
