package mctest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build builds a program, such as "mcmw/cmd/mcmw", and returns its path. The program is removed when the test ends.
func Build(t testing.TB, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	if err := BuildAs(path, program); err != nil {
		t.Fatal(err)
	}
	return path
}

// BuildAs builds a program at a path. The program is of the module of the test, or of one that this module requires.
func BuildAs(path, program string) error {
	module := "mcmw"
	if strings.HasPrefix(program, "mcmw/lab/") {
		module = "mcmw/lab"
	}
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("finding the module %s: %w", module, err)
	}
	build := exec.Command("go", "-C", strings.TrimSpace(string(folder)), "build", "-o", path, program)
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", program, err, output)
	}
	return nil
}
