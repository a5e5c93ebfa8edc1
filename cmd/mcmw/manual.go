package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"mcmw/internal/commandline"
)

// newManualCommand returns the hidden command that writes the manual pages and the completion scripts for packages.
func newManualCommand() *cobra.Command {
	command := &cobra.Command{
		Use:    "manual DIRECTORY",
		Short:  "Write manual pages and completion scripts to man and completion in a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
	}
	command.RunE = func(cmd *cobra.Command, args []string) error {
		root, man, completion := cmd.Root(), filepath.Join(args[0], "man"), filepath.Join(args[0], "completion")
		for _, dir := range []string{man, completion} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		for name, page := range commandline.Manual(root, build.Version) {
			if err := os.WriteFile(filepath.Join(man, name+".1"), []byte(page), 0o644); err != nil {
				return err
			}
		}
		for shell, write := range map[string]func(string) error{
			"bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
			"zsh":  root.GenZshCompletionFile,
			"fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
		} {
			if err := write(filepath.Join(completion, "mcmw."+shell)); err != nil {
				return err
			}
		}
		return nil
	}
	return command
}
