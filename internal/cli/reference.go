package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const referenceHead = `# The command line sched

<!-- Written by "make generate" from internal/cli: edit the commands there. -->

` + "`sched`" + ` is the operator's tool; ` + "`sched COMMAND --help`" + ` says what is below. The sidecar's own options are in [config.md](config.md).

**Database.** ` + "`--dsn`" + `, else ` + "`SCHED_DATABASE_URL`" + ` (or the file that ` + "`SCHED_DATABASE_URL_FILE`" + ` names), else ` + "`DATABASE_URL`" + `, else the
` + "`PG*`" + ` variables. Log in as a member of ` + "`sched_sidecar`" + ` or ` + "`sched_owner`" + `; ` + "`sched_auditor`" + ` is enough for ` + "`tasks list`, `tasks get`, `explain` and `batches`" + `,
` + "`sched_producer`" + ` for ` + "`enqueue`" + ` and for ` + "`tasks cancel` and `tasks retry`" + ` by id.

**Output.** The answer goes to standard output, all else to standard error. Tables are for people: times in the local zone, long
texts cut to the width of the terminal, colours at a terminal only and not with ` + "`NO_COLOR`" + `. With ` + "`--json`" + ` there is one JSON object a
line: nothing is cut, times are RFC 3339, and names are those of the [SQL views](sql.md#views).

**Exit codes.**

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed; for changes of many tasks also: some could not be changed |
| 2 | wrong usage or configuration: nothing was done |
| 3 | there is no such task, worker, queue or batch |
| 130, 143 | ended by SIGINT or SIGTERM before it was done; a second signal ends it at once |
`

// WriteReference writes docs/cli.md from the commands themselves.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(referenceHead)
	root := schedCommand(nil)
	for _, child := range root.Commands() {
		describe(&b, child, 2)
	}
	_, err := io.WriteString(w, b.String())

	return err
}

// describe writes a command and those below it.
func describe(b *strings.Builder, cmd *cobra.Command, level int) {
	if cmd.Hidden || cmd.Name() == "help" {
		return
	}
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	long = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(long), exitCodesHelp))
	children := cmd.Commands()
	list := slices.IndexFunc(children, func(c *cobra.Command) bool { return c.Name() == "list" })
	if list >= 0 && cmd.HasLocalFlags() {
		long = cmd.Short + ". Alone it is `" + children[list].CommandPath() + "`."
	}
	fmt.Fprintf(b, "\n%s %s\n\n%s\n", strings.Repeat("#", level), cmd.CommandPath(), paragraphs(long))
	if len(children) == 0 {
		usages := strings.Split(cmd.UseLine(), " | ")
		for i := 1; i < len(usages); i++ { // further forms name the command alone
			usages[i] = cmd.Parent().CommandPath() + " " + strings.TrimSpace(usages[i])
		}
		fmt.Fprintf(b, "\n```\n%s\n```\n", strings.Join(usages, "\n"))
		describeFlags(b, cmd)
	}
	for _, child := range children {
		describe(b, child, level+1)
	}
}

// paragraphs keeps a help text's lines that are indented, which are examples, as
// they are.
func paragraphs(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "\n    " + strings.TrimSpace(line) + "\n"
		}
	}

	return strings.TrimRight(strings.ReplaceAll(strings.Join(lines, "\n"), "\n\n\n", "\n\n"), "\n")
}

func describeFlags(b *strings.Builder, cmd *cobra.Command) {
	var rows strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			name += " " + kind
		}
		name += "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if def := f.DefValue; def != "" && def != "false" && def != "[]" && def != "0" && def != "0s" {
			usage += " (default " + def + ")"
		}
		fmt.Fprintf(&rows, "| %s | %s |\n", name, strings.ReplaceAll(usage, "|", `\|`))
	})
	if rows.Len() > 0 {
		b.WriteString("\n| flag | meaning |\n|---|---|\n" + rows.String())
	}
}
