package config

import (
	"fmt"
	"io"
	"strings"
)

const docsHead = `# Configuration of a sidecar

<!-- Written by "make generate" from internal/config: edit the table there. -->

` + "`sched-sidecar`" + ` needs no configuration to start: it finds Postgres as psql does and delivers to http://127.0.0.1:8080.
What it can be told comes, each above the one before, from

1. the defaults below,
2. ` + "`DATABASE_URL`" + `, for ` + "`database.url`" + ` alone,
3. the YAML file that ` + "`--config`" + ` or ` + "`SCHED_CONFIG`" + ` names,
4. ` + "`SCHED_*`" + ` variables,
5. flags (` + "`sched-sidecar run --help`" + `).

A key that a higher source sets replaces the lower one's value whole, lists and mappings too. An empty variable counts as
not set. Lists are written ` + "`a,b`" + ` in variables and flags, mappings ` + "`key=value,key=value`" + `; a flag given again adds to
them. Durations have a unit: ` + "`500ms`, `30s`, `1m30s`" + `. In YAML, labels that look like numbers or booleans need quotes.

Unknown keys and ` + "`SCHED_*`" + ` variables are errors that name the nearest one; variables that Kubernetes sets for a service
called sched are not meant. All problems are reported at once. ` + "`sched-sidecar config check`" + ` reports them without starting
anything; ` + "`sched-sidecar config print`" + ` shows every value and where it comes from, secrets redacted.

Secrets can be read from files: the variables below that end in ` + "`_FILE`" + ` name them.
`

const docsTail = `
## Example

` + "```yaml" + `
database:
  url: postgres://sched_sidecar@db.internal:5432/shop
app:
  url: http://127.0.0.1:8080
  health_path: /healthz
queues: [default, mail]
labels:
  zone: eu-1
  gpu: "yes"
slots:
  ceiling: 128
shutdown_grace: 25s
log:
  format: json
` + "```" + `
`

// WriteDocs writes docs/config.md.
func WriteDocs(w io.Writer) error {
	var b strings.Builder
	b.WriteString(docsHead)

	defaults := DefaultSidecar()
	for _, s := range Sections() {
		fmt.Fprintf(&b, "\n## %s\n\n| key, variable, flag | default | allowed | meaning |\n|---|---|---|---|\n", s.Title)
		for _, f := range s.Fields {
			names := fmt.Sprintf("`%s`<br>`%s`", f.Key, f.Env())
			if f.IsSecret() {
				names += fmt.Sprintf("<br>`%s%s`", f.Env(), fileSuffix)
			}
			if !f.NoFlag {
				names += fmt.Sprintf("<br>`--%s`", f.Flag())
			}
			def := showValue(valueAt(&defaults, f.Key).Interface())
			if def == "" {
				def = "empty"
			} else {
				def = "`" + def + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", names, def, f.Allowed(), f.Doc)
		}
	}
	b.WriteString(docsTail)

	_, err := io.WriteString(w, b.String())

	return err
}
