// Testsum runs `go test -json`, shows what matters of it, and counts tests over several such runs.
//
//	testsum run FILE COMMAND [ARG...]   runs COMMAND, keeps its events in FILE, exits as it did
//	testsum total FILE [FILE...]        prints what failed and "N passed, N failed, N skipped"; exits 1 if anything failed
//
// A test with subtests is counted by its subtests. A test that ran in several files counts once: it failed if it failed
// in any, and was skipped only if it was in all. What left no proper result counts as a failure: a package that does
// not build or ends by itself, a test that never ended, a file without results.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// event is one line of `go test -json`, as `go doc test2json` describes it, or the last one, which testsum adds.
type event struct {
	Action   string
	Package  string  `json:",omitempty"`
	Test     string  `json:",omitempty"`
	Output   string  `json:",omitempty"`
	Elapsed  float64 `json:",omitempty"` // seconds
	ExitCode int     `json:",omitempty"` // of the command, with actionExit
}

// actionExit is the action of the event that closes a file of results.
const actionExit = "exit"

func main() {
	code, err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	os.Exit(code)
}

// run returns the exit code, and an error where testsum itself could not do its work.
func run(args []string, out, errOut io.Writer) (int, error) {
	switch {
	case len(args) >= 3 && args[0] == "run":
		return record(args[1], args[2:], out, errOut)
	case len(args) >= 2 && args[0] == "total":
		return total(args[1:], out)
	}
	return 2, errors.New("usage: run FILE COMMAND [ARG...] or total FILE [FILE...]")
}

// record runs a command whose output is test events, keeps them in the file, and shows them on out. The command's own
// complaints go to errOut, at any time while it runs.
func record(file string, command []string, out, errOut io.Writer) (int, error) {
	f, err := os.Create(file)
	if err != nil {
		return 2, err
	}
	defer f.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = errOut
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 2, err
	}
	if err := cmd.Start(); err != nil {
		return 2, err
	}
	if err := decode(io.TeeReader(events, f), newShow(out).event); err != nil {
		// The command must not block on what is no longer read.
		_, _ = io.Copy(io.Discard, events)
		return 2, errors.Join(err, cmd.Wait())
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 2, err
	}
	code := cmd.ProcessState.ExitCode()
	if err := json.NewEncoder(f).Encode(event{Action: actionExit, ExitCode: code}); err != nil {
		return 2, err
	}
	return code, f.Close()
}

// decode calls use for every event of r. Lines that are no events, such as the go command's own, are passed as output.
func decode(r io.Reader, use func(event)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				e = event{Action: "output", Output: string(line)}
			}
			use(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// show prints a run as it goes: a line per package, the log of failed tests, the logs of top-level tests (they say seeds
// and measurements), and whatever belongs to no test.
type show struct {
	out  io.Writer
	logs map[string]*strings.Builder // by package and test, of tests that have not ended
}

func newShow(out io.Writer) *show { return &show{out: out, logs: map[string]*strings.Builder{}} }

func (s *show) event(e event) {
	key := e.Package + "." + e.Test
	switch e.Action {
	case "output":
		if isMarker(e.Output) {
			return
		}
		if e.Test == "" || strings.HasPrefix(e.Output, "fuzz: ") {
			fmt.Fprint(s.out, e.Output)
			return
		}
		if s.logs[key] == nil {
			s.logs[key] = new(strings.Builder)
		}
		s.logs[key].WriteString(e.Output)
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "pass", "skip", "fail":
		if log := s.logs[key]; log != nil {
			if e.Action == "fail" || !strings.Contains(e.Test, "/") {
				fmt.Fprintf(s.out, "%s %s %s (%.1fs)\n%s", e.Action, e.Package, e.Test, e.Elapsed, log)
			}
			delete(s.logs, key)
		}
	}
}

// isMarker reports whether output only says that a test begins, goes on or ends.
func isMarker(output string) bool {
	output = strings.TrimLeft(output, " ")
	return strings.HasPrefix(output, "=== ") || strings.HasPrefix(output, "--- ") || output == "PASS\n" || output == "FAIL\n"
}
