package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const manifestName = "manifest.json"

// Manifest says what a record is of, and what it takes to make it again. It is written when the record is created and
// doesn't change.
type Manifest struct {
	Name    string    `json:"name"`
	Title   string    `json:"title,omitempty"`
	Created time.Time `json:"created"`
	// Command is the command line that made the record.
	Command []string `json:"command,omitempty"`
	// Experiment is the text of the experiment's file as it was given.
	Experiment string `json:"experiment,omitempty"`
	// Testbed is where it ran, such as local.
	Testbed string `json:"testbed,omitempty"`
	Seed    uint64 `json:"seed,omitempty"`
	// Versions of the programs that took part, by their names.
	Versions map[string]string `json:"versions,omitempty"`
	Host     Host              `json:"host"`
	// Machines are what the testbed's machines were like, if it knows. Shortfalls say in what they were less than was asked for.
	Machines   []Machine `json:"machines,omitempty"`
	Shortfalls []string  `json:"shortfalls,omitempty"`
	// Dilation is how many seconds passed while one passed for the machines, if it wasn't one. All times and rates are theirs.
	Dilation float64 `json:"dilation,omitempty"`
	// Path is the round-trip time and the bandwidth between clients and servers, measured before the set.
	Path []Value `json:"path,omitempty"`
	// Imported is the format that the record was made from, if it was not measured here.
	Imported string `json:"imported,omitempty"`
}

// Machine is what one machine of a testbed was like, as asked for. What is 0 was not limited.
type Machine struct {
	Name     string  `json:"name"`
	Preset   string  `json:"preset,omitempty"` // the size that it stands for
	Address  string  `json:"address,omitempty"`
	CPUs     float64 `json:"cpus,omitempty"`     // seconds of processor time per second
	Memory   int64   `json:"memory,omitempty"`   // bytes
	Upload   float64 `json:"upload,omitempty"`   // payload of TCP from the machine, bytes per second
	Download float64 `json:"download,omitempty"` // and to it
	Delay    float64 `json:"delay,omitempty"`    // for which packets travel to another machine, seconds
	// DelayedBy is what holds them back, if anything does.
	DelayedBy string `json:"delayed_by,omitempty"`
}

// Is reports whether a directory is that of a record.
func Is(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, manifestName))
	return err == nil && info.Mode().IsRegular()
}

// Host is the machine that a set ran on.
type Host struct {
	Hostname  string `json:"hostname,omitempty"`
	Kernel    string `json:"kernel,omitempty"` // as uname -sr
	CPU       string `json:"cpu,omitempty"`    // the model's name
	Cores     int    `json:"cores,omitempty"`  // that the processes may use
	Memory    uint64 `json:"memory,omitempty"` // bytes
	OS        string `json:"os,omitempty"`     // the distribution
	GoVersion string `json:"go_version,omitempty"`
	// Settings are those that measurements depend on, such as the frequency governor, by their names.
	Settings map[string]string `json:"settings,omitempty"`
}

// writeManifest writes m to the directory: whole, or not at all.
func writeManifest(dir string, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, manifestName+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(append(text, '\n'))
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), filepath.Join(dir, manifestName))
	}
	if err != nil {
		os.Remove(temporary.Name())
	}
	return err
}

func readManifest(dir string) (Manifest, error) {
	var m Manifest
	path := filepath.Join(dir, manifestName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s: %w: there is no %s in it", dir, ErrNoRecord, manifestName)
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w: %w", path, ErrNoRecord, err)
	}
	return m, nil
}
