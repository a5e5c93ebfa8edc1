package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestEveryCommandHasAManualPageWithItsFlags(t *testing.T) {
	dir := t.TempDir()
	code, _, stderr := execute(t, "manual", dir)
	require.Equal(t, exitOK, code, stderr)
	pages := 0
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		pages++
		page, err := os.ReadFile(filepath.Join(dir, "man", strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		require.NoError(t, err)
		text := strings.ReplaceAll(string(page), `\-`, "-")
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				require.Contains(t, text, `\fB--`+f.Name+`\fR`, c.CommandPath())
			}
		})
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(newRootCommand())
	require.Greater(t, pages, 10)
	if _, err := exec.LookPath("groff"); err == nil {
		written, err := filepath.Glob(filepath.Join(dir, "man", "*.1"))
		require.NoError(t, err)
		out, err := exec.Command("groff", append([]string{"-man", "-Tutf8", "-ww", "-Wbreak", "-z"}, written...)...).
			CombinedOutput()
		require.NoError(t, err)
		require.Empty(t, string(out), "warnings of groff")
	}
}
