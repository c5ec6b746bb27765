package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func completionCommand() *cobra.Command {
	cmd := group("completion", "Print a completion script for a shell",
		completionFor("bash", "source <(sched completion bash)", "~/.bashrc", func(root *cobra.Command, w io.Writer) error {
			return root.GenBashCompletionV2(w, true)
		}),
		completionFor("zsh", "source <(sched completion zsh)", "~/.zshrc", (*cobra.Command).GenZshCompletion),
		completionFor("fish", "sched completion fish | source", "~/.config/fish/config.fish", func(root *cobra.Command, w io.Writer) error {
			return root.GenFishCompletion(w, true)
		}),
	)

	return cmd
}

func completionFor(shell, line, file string, generate func(*cobra.Command, io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use:   shell,
		Short: "Print the script for " + shell,
		Long: fmt.Sprintf(`Prints the completion script for %s. To have it in every shell, add to %s:
  %s`, shell, file, line),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return generate(cmd.Root(), cmd.OutOrStdout())
		},
	}
}
