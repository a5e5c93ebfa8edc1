package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const exited = `{"Action":"exit"}` + "\n"

// sum returns what total says of files with these contents.
func sum(t *testing.T, contents ...string) (int, string) {
	t.Helper()
	t.Chdir(t.TempDir())
	var files []string
	for i, content := range contents {
		file := string(rune('a' + i))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		files = append(files, file)
	}
	var out bytes.Buffer
	code, err := total(files, &out)
	require.NoError(t, err)
	return code, out.String()
}

// ended is the events of a test that began and ended.
func ended(action, pkg, test string) string {
	return `{"Action":"run","Package":"` + pkg + `","Test":"` + test + `"}` + "\n" +
		`{"Action":"` + action + `","Package":"` + pkg + `","Test":"` + test + `"}` + "\n"
}

func pkg(action, name string) string {
	return `{"Action":"start","Package":"` + name + `"}` + "\n" + `{"Action":"` + action + `","Package":"` + name + `"}` + "\n"
}

func TestTheSumCountsEveryTestOnceAndMissesNoFailure(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string
		code  int
		want  string
	}{
		{
			"all kinds",
			[]string{pkg("fail", "m/a") + ended("pass", "m/a", "TestX") + ended("skip", "m/a", "TestY") + ended("fail", "m/a", "TestZ") + exited},
			1, "FAILED m/a TestZ\n1 passed, 1 failed, 1 skipped\n",
		},
		{
			"subtests count instead of their parents",
			[]string{pkg("fail", "m/a") + ended("fail", "m/a", "T") + ended("pass", "m/a", "T/x") + ended("fail", "m/a", "T/y") +
				ended("pass", "m/a", "T/y/1") + ended("fail", "m/a", "T/y/2") + exited},
			1, "FAILED m/a T/y/2\n2 passed, 1 failed, 0 skipped\n",
		},
		{
			"a parent that failed by itself counts",
			[]string{pkg("fail", "m/a") + ended("fail", "m/a", "T") + ended("pass", "m/a", "T/x") + exited},
			1, "FAILED m/a T\n1 passed, 1 failed, 0 skipped\n",
		},
		{
			"skipped in one run and passed in another is passed",
			[]string{pkg("pass", "m/a") + ended("skip", "m/a", "T") + exited, pkg("pass", "m/a") + ended("pass", "m/a", "T") + exited},
			0, "1 passed, 0 failed, 0 skipped\n",
		},
		{
			"failed in one run and passed in another is failed",
			[]string{pkg("fail", "m/a") + ended("fail", "m/a", "T") + exited, pkg("pass", "m/a") + ended("pass", "m/a", "T") + exited},
			1, "FAILED m/a T\n0 passed, 1 failed, 0 skipped\n",
		},
		{
			"the same name in two packages is two tests",
			[]string{pkg("pass", "m/a") + pkg("pass", "m/b") + ended("pass", "m/a", "T") + ended("pass", "m/b", "T") + exited},
			0, "2 passed, 0 failed, 0 skipped\n",
		},
		{
			"a package without tests counts nothing",
			[]string{pkg("skip", "m/none") + pkg("pass", "m/a") + ended("pass", "m/a", "T") + exited},
			0, "1 passed, 0 failed, 0 skipped\n",
		},
		{
			"a package that does not build",
			[]string{pkg("fail", "m/a") + `{"Action":"exit","ExitCode":1}` + "\n"},
			1, "FAILED m/a: failed outside its tests\n0 passed, 1 failed, 0 skipped\n",
		},
		{
			"a test that never ended",
			[]string{pkg("fail", "m/a") + `{"Action":"run","Package":"m/a","Test":"T"}` + "\n" + exited},
			1, "FAILED m/a T\n0 passed, 1 failed, 0 skipped\n",
		},
		{
			"a package that never ended",
			[]string{`{"Action":"start","Package":"m/a"}` + "\n" + ended("pass", "m/a", "T") + exited},
			1, "FAILED m/a: failed outside its tests\n1 passed, 1 failed, 0 skipped\n",
		},
		{
			"a run cut short",
			[]string{pkg("pass", "m/a") + ended("pass", "m/a", "T")},
			1, "FAILED a: the run was cut short\n1 passed, 1 failed, 0 skipped\n",
		},
		{
			"no results",
			[]string{exited},
			1, "FAILED a: no results\n0 passed, 1 failed, 0 skipped\n",
		},
		{
			"an exit code that no test explains",
			[]string{pkg("pass", "m/a") + ended("pass", "m/a", "T") + `{"Action":"exit","ExitCode":2}` + "\n"},
			1, "FAILED a: exit code 2\n1 passed, 1 failed, 0 skipped\n",
		},
		{
			"lines that are no events",
			[]string{"go: downloading\n" + pkg("pass", "m/a") + ended("pass", "m/a", "T") + exited},
			0, "1 passed, 0 failed, 0 skipped\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, got := sum(t, tc.files...)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.code, code)
		})
	}
}

func TestAFileThatIsMissingCountsAsAFailure(t *testing.T) {
	var out bytes.Buffer
	code, err := total([]string{filepath.Join(t.TempDir(), "none.json")}, &out)
	require.NoError(t, err)
	require.Equal(t, 1, code)
	require.Contains(t, out.String(), "none.json: no results\n0 passed, 1 failed, 0 skipped\n")
}

func TestARunIsKeptAndShownAndItsExitCodeReturned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	events := `{"Action":"output","Package":"m/a","Test":"T","Output":"=== RUN   T\n"}` + "\n" +
		`{"Action":"output","Package":"m/a","Test":"T","Output":"    seed 7\n"}` + "\n" +
		`{"Action":"output","Package":"m/a","Test":"T/quiet","Output":"    of no interest\n"}` + "\n" +
		`{"Action":"output","Package":"m/a","Test":"T/loud","Output":"    what went wrong\n"}` + "\n" +
		ended("pass", "m/a", "T/quiet") + ended("fail", "m/a", "T/loud") + ended("fail", "m/a", "T") +
		`{"Action":"output","Package":"m/a","Output":"FAIL\n"}` + "\n" +
		`{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}` + "\n" + pkg("fail", "m/a")
	var out, errOut bytes.Buffer
	code, err := run([]string{"run", file, "sh", "-c", `printf '%s' "$1"; echo oops >&2; exit 3`, "sh", events}, &out, &errOut)
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.Equal(t, "fail m/a T/loud (0.0s)\n    what went wrong\nfail m/a T (0.0s)\n    seed 7\nFAIL\tm/a\t0.1s\n", out.String())
	require.Equal(t, "oops\n", errOut.String())
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, events+`{"Action":"exit","ExitCode":3}`+"\n", string(kept))
}

func TestAWrongCallIsRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"total"}, {"run", "f"}, {"count", "f", "g"}} {
		code, err := run(args, new(bytes.Buffer), new(bytes.Buffer))
		require.Equal(t, 2, code)
		require.ErrorContains(t, err, "usage")
	}
}
