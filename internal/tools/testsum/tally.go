package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// outcome is how a test ended, ordered by what prevails over several runs.
type outcome uint8

const (
	running outcome = iota
	skipped
	passed
	failed
)

// testID names a test. Test is "" for what failed outside any test; Package then says what and how.
type testID struct{ Package, Test string }

// tally is the outcome of every test over all runs.
type tally map[testID]outcome

func (t tally) add(id testID, o outcome) { t[id] = max(t[id], o) }

// total prints the sum over the files of results, and what failed. It returns 1 if anything did.
func total(files []string, out io.Writer) (int, error) {
	t := tally{}
	for _, file := range files {
		if err := t.addFile(file); err != nil {
			return 2, err
		}
	}
	count, failures := t.count()
	for _, id := range failures {
		fmt.Fprintln(out, strings.TrimSpace("FAILED "+id.Package+" "+id.Test))
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", count[passed], count[failed], count[skipped])
	if count[failed] > 0 {
		return 1, nil
	}
	return 0, nil
}

func (t tally) addFile(file string) error {
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		t.add(testID{Package: file + ": no results"}, failed)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := results{file: file, tests: map[testID]outcome{}}
	if err := decode(f, r.event); err != nil {
		return err
	}
	r.addTo(t)
	return nil
}

// results are what one run of the go command reported.
type results struct {
	file  string
	tests map[testID]outcome // with Test "" for the packages themselves
	// exit is the run's own event, the last; nil where the run was cut short.
	exit *event
}

func (r *results) event(e event) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "start", "run":
		r.tests[id] = running
	case "pass":
		r.tests[id] = passed
	case "skip":
		r.tests[id] = skipped
	case "fail":
		r.tests[id] = failed
	case actionExit:
		r.exit = &e
	}
}

func (r *results) addTo(t tally) {
	failedIn := map[string]bool{} // packages with a failed test
	anyFailed := false
	for id, o := range r.tests {
		if id.Test == "" {
			continue
		}
		if o == running {
			o = failed
		}
		t.add(id, o)
		failedIn[id.Package] = failedIn[id.Package] || o == failed
		anyFailed = anyFailed || o == failed
	}
	for id, o := range r.tests {
		if id.Test != "" || o == passed || o == skipped || failedIn[id.Package] {
			continue
		}
		t.add(testID{Package: id.Package + ": failed outside its tests"}, failed)
		anyFailed = true
	}
	switch {
	case r.exit == nil:
		t.add(testID{Package: r.file + ": the run was cut short"}, failed)
	case len(r.tests) == 0:
		t.add(testID{Package: r.file + ": no results"}, failed)
	case r.exit.ExitCode != 0 && !anyFailed:
		t.add(testID{Package: fmt.Sprintf("%s: exit code %d", r.file, r.exit.ExitCode)}, failed)
	}
}

// count returns how many tests had each outcome, and which failed, in order. A test with subtests stands back behind
// them, unless it failed by itself.
func (t tally) count() (map[outcome]int, []testID) {
	hasSubtests, hasFailedSubtest := map[testID]bool{}, map[testID]bool{}
	for id, o := range t {
		for i := strings.LastIndexByte(id.Test, '/'); i > 0; i = strings.LastIndexByte(id.Test[:i], '/') {
			parent := testID{id.Package, id.Test[:i]}
			hasSubtests[parent] = true
			if o == failed {
				hasFailedSubtest[parent] = true
			}
		}
	}
	count := map[outcome]int{}
	var failures []testID
	for id, o := range t {
		if hasSubtests[id] && (o != failed || hasFailedSubtest[id]) {
			continue
		}
		count[o]++
		if o == failed {
			failures = append(failures, id)
		}
	}
	slices.SortFunc(failures, func(a, b testID) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Test, b.Test))
	})
	return count, failures
}
