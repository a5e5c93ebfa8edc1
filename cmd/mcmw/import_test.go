package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServeAcceptsAnImportedFile(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("nutcracker.yml",
		[]byte("web:\n  listen: 127.0.0.1:22121\n  servers:\n    - 10.0.0.1:11211:1\n  auto_eject_hosts: true\n"),
		0o600))

	code, stdout, stderr := execute(t, "config", "import", "nutcracker.yml")
	require.Equal(t, exitFailed, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "mcmw: nutcracker.yml:5: auto_eject_hosts: ")

	code, stdout, stderr = execute(t, "config", "import", "nutcracker.yml", "--leave-out", "redis,auto_eject_hosts")
	require.Equal(t, exitOK, code, stderr)
	require.NoError(t, os.WriteFile("mcmw.yaml", []byte(stdout), 0o600))
	code, stdout, stderr = execute(t, "config", "check", "--config", "mcmw.yaml")
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "OK\n", stdout)

	code, _, stderr = execute(t, "config", "import", filepath.Join("no", "file"))
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "mcmw: cannot read the file: open no/file")
	code, _, stderr = execute(t, "config", "import")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "accepts 1 arg(s)")
}
