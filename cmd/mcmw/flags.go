package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcmw/internal/config"
)

// addOptions adds a flag for every option of the configuration to command, with shell completion.
func addOptions(command *cobra.Command) *config.Flags {
	command.Flags().SortFlags = false
	flags := config.AddFlags(command.Flags())
	for _, o := range config.Options {
		if o.TakesFile() || o.InFileOnly() {
			continue
		}
		if err := command.RegisterFlagCompletionFunc(o.Name, cobra.FixedCompletions(o.Words(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag is not defined: a bug in this function
		}
	}
	return flags
}

// word is the value of a flag that accepts one of a closed list of words.
type word struct {
	value *string
	words []string
}

// oneOf adds a flag to command that accepts one of words. The first is the default.
func oneOf(command *cobra.Command, value *string, name, short, help string, words ...string) {
	*value = words[0]
	command.Flags().VarP(&word{value, words}, name, short, help)
	if err := command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not defined: a bug in this function
	}
}

// Set implements pflag.Value.
func (w *word) Set(text string) error {
	if !slices.Contains(w.words, text) {
		return fmt.Errorf("accepted: %s", strings.Join(w.words, ", "))
	}
	*w.value = text
	return nil
}

// String implements pflag.Value.
func (w *word) String() string { return *w.value }

// Type implements pflag.Value.
func (w *word) Type() string { return strings.Join(w.words, "|") }
