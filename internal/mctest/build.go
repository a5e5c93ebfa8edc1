package mctest

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Build builds a program of this module, such as "mcmw/cmd/mcmw", and returns its path. The program is removed when the test ends.
func Build(t testing.TB, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	if output, err := exec.Command("go", "build", "-o", path, program).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", program, err, output)
	}
	return path
}
