package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/runner"
)

// series is a list of experiments that are run one after the other. It may have only one.
type series struct {
	members []member
	now     int // the number of the member under way, from 0
	// spent is the time the previous members took, and planned the time expected for them.
	spent, planned time.Duration
}

type member struct {
	experiment *experiment.Experiment
	dir        string // of its record
	resume     bool
	expected   time.Duration // expected time of its missing runs
}

// readSeries reads all experiments before the first is run, and sets their records' directories.
func (f *runFlags) readSeries(ctx context.Context, files []string) (*series, error) {
	switch {
	case f.out != "" && f.outDir != "":
		return nil, usageError{errors.New("--out and --out-dir: expected one of them")}
	case f.out != "" && len(files) > 1:
		return nil, usageError{fmt.Errorf("--out is the directory of one record, and there are %d experiments; expected --out-dir", len(files))}
	}
	s := &series{}
	of := map[string]string{} // files by the names of their experiments
	var problems []error
	for _, file := range files {
		e, err := f.readExperiment(file)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if other, twice := of[e.Name]; twice {
			return nil, usageError{fmt.Errorf("%s and %s are both called %s; expected names of their own", other, file, e.Name)}
		}
		of[e.Name] = file
		m := member{experiment: e, dir: f.out, resume: f.resume}
		if m.dir == "" {
			m.dir = filepath.Join(cmp.Or(f.outDir, "results"), e.Name)
			if f.delay > 0 {
				m.dir += fmt.Sprintf("@%gms", 1e3*f.delay.Seconds())
			}
		}
		complete, err := completeRuns(ctx, m.dir)
		switch {
		case errors.Is(err, record.ErrNoRecord) && f.resumesSeries(files):
			m.resume = false // it is this experiment's turn now
		case err == nil && !f.resume:
			return nil, fmt.Errorf("%s: %w: --resume goes on with what is there", m.dir, record.ErrExists)
		}
		_, most := e.Runs()
		m.expected = time.Duration(max(most-complete, 0)) * e.RunTime()
		s.members = append(s.members, m)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return s, nil
}

// readExperiment reads an experiment and moves it to the requested testbed.
func (f *runFlags) readExperiment(file string) (*experiment.Experiment, error) {
	e, err := readExperiment(file, f.set, f.quickly)
	if err != nil {
		return nil, err
	}
	if err := f.elsewhere(e); err != nil {
		return nil, usageError{err}
	}
	if f.delay != 0 {
		if f.delay < 0 || e.Testbed != experiment.VMTestbed {
			return nil, usageError{fmt.Errorf("--delay %v: expected more than 0, on the testbed vm; %s is for %s", f.delay, file, e.Testbed)}
		}
		e.Delay = f.delay
	}
	return e, nil
}

// resumesSeries reports whether --resume also starts records that don't exist: those of the experiments after the interrupted one.
func (f *runFlags) resumesSeries(files []string) bool {
	return f.resume && (len(files) > 1 || f.outDir != "")
}

// completeRuns returns how many complete runs the record in a directory has.
func completeRuns(ctx context.Context, dir string) (n int, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return 0, record.ErrNoRecord
	}
	r, err := record.Open(dir)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	runs, err := r.Runs(ctx)
	for _, run := range runs {
		if run.State == record.Complete {
			n++
		}
	}
	return n, err
}

// ended records the time the current member took, and goes on to the next.
func (s *series) ended(took time.Duration) {
	s.spent += took
	s.planned += s.members[s.now].expected
	s.now++
}

// name identifies the current one of several experiments.
func (s *series) name() string {
	if len(s.members) == 1 {
		return ""
	}
	return fmt.Sprintf("%s (%d of %d): ", s.members[s.now].experiment.Name, s.now+1, len(s.members))
}

// left describes the remaining time, of the current member and of all.
func (s *series) left(step runner.Progress) string {
	text := fmt.Sprintf("about %v left", step.Left.Round(time.Second))
	if step.Least < step.Most {
		text = "at most " + text
	}
	var later time.Duration
	for _, m := range s.members[s.now+1:] {
		later += m.expected
	}
	if len(s.members) == 1 {
		return text
	}
	if s.planned > 0 {
		later = time.Duration(float64(later) * float64(s.spent) / float64(s.planned))
	}
	return text + fmt.Sprintf(", %v of all", (step.Left+later).Round(time.Second))
}
