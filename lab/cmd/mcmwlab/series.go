package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mcmw/lab/experiment"
	"mcmw/lab/record"
	"mcmw/lab/runner"
	"mcmw/lab/testbed"
	"mcmw/lab/testbed/ssh"
)

// series is a list of experiments, at least one, that are run one after the other.
type series struct {
	members []member
	now     int // index of the current member
	// spent is the time of the previous members, planned the time that was expected for them.
	spent, planned time.Duration
}

// member is an experiment of a series.
type member struct {
	experiment *experiment.Experiment
	dir        string // of its record
	resume     bool
	expected   time.Duration // expected time of its missing runs
}

// readSeries reads all experiments, and checks the directories of their records.
func (f *runFlags) readSeries(ctx context.Context, files []string) (*series, error) {
	switch {
	case f.out != "" && f.outDir != "":
		return nil, usageError{errors.New("--out and --out-dir: expected only one of them")}
	case f.out != "" && len(files) > 1:
		return nil,
			usageError{fmt.Errorf("--out is the directory of one record, but there are %d experiments; expected "+
				"--out-dir", len(files))}
	}
	s := &series{}
	fileOf := map[string]string{} // by the name of the experiment
	var problems []error
	for _, file := range files {
		e, err := readExperiment(file, f.set, f.quick)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if other, twice := fileOf[e.Name]; twice {
			return nil, usageError{fmt.Errorf("%s and %s have the same name %s; expected different names", other, file,
				e.Name)}
		}
		fileOf[e.Name] = file
		m := member{experiment: e, dir: f.out, resume: f.resume}
		if m.dir == "" {
			m.dir = filepath.Join(cmp.Or(f.outDir, "results"), e.Name)
		}
		complete, err := completeRuns(ctx, m.dir)
		switch {
		case errors.Is(err, record.ErrNoRecord) && (len(files) > 1 || f.outDir != ""):
			m.resume = false // a new record, such as of the experiments after the interrupted one
		case err == nil && !f.resume:
			return nil, fmt.Errorf("%s: %w: --resume continues it", m.dir, record.ErrExists)
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

// completeRuns returns the number of complete runs in the record in a directory.
func completeRuns(ctx context.Context, dir string) (n int, err error) {
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

// name returns the prefix of messages about the current one of several experiments; "" if there is only one.
func (s *series) name() string {
	if len(s.members) == 1 {
		return ""
	}
	return fmt.Sprintf("%s (%d of %d): ", s.members[s.now].experiment.Name, s.now+1, len(s.members))
}

// left describes the remaining time of the current member and of all members.
func (s *series) left(step runner.Progress) string {
	text := fmt.Sprintf("about %v left", step.Left.Round(time.Second))
	if step.Least < step.Most {
		text = "at most " + text
	}
	if len(s.members) == 1 {
		return text
	}
	var later time.Duration
	for _, m := range s.members[s.now+1:] {
		later += m.expected
	}
	if s.planned > 0 {
		later = time.Duration(float64(later) * float64(s.spent) / float64(s.planned))
	}
	return text + fmt.Sprintf(", %v for all", (step.Left+later).Round(time.Second))
}

// openSSH creates the testbed on the hosts of an inventory.
func (f *runFlags) openSSH(ctx context.Context, e *experiment.Experiment) (bed testbed.Testbed, local testbed.Programs,
	err error,
) {
	if e.Inventory == "" {
		return nil, local,
			usageError{errors.New("the testbed ssh needs hosts; expected testbed: {kind: ssh, inventory: FILE} " +
				"(docs/testbeds.md)")}
	}
	if e.Uses(experiment.Server, experiment.Redis) {
		return nil, local,
			usageError{errors.New("server: redis: the testbed ssh only starts memcached; expected the testbed local " +
				"or vm")}
	}
	text, err := os.ReadFile(e.Inventory)
	if err != nil {
		return nil, local, usageError{fmt.Errorf("the inventory of the testbed ssh: %w", err)}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, local, err
	}
	inventory, err := experiment.ParseInventory(e.Inventory, text, home)
	if err != nil {
		return nil, local, usageError{err}
	}
	if err := f.programs(e, &local); err != nil {
		return nil, local, usageError{err}
	}
	hosts, err := ssh.Open(ctx, inventory, local)
	if err != nil {
		return nil, local, err
	}
	return testbed.OnHosts(hosts, ssh.Programs, e.CPUs), local, nil
}
