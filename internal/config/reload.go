package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
)

// Change is an option whose value has changed.
type Change struct {
	Option   string
	From, To string // as in the file, lists separated by commas
}

// String returns the change in one line.
func (c Change) String() string { return fmt.Sprintf("%s: %s -> %s", c.Option, c.From, c.To) }

// Changes returns the options whose values differ from those in old, in the table's order.
func (c *Config) Changes(old *Config) []Change {
	var changes []Change
	for _, o := range Options {
		if from, to := o.kind.get(old), o.kind.get(c); !reflect.DeepEqual(from, to) {
			changes = append(changes, Change{o.Name, valueText(from), valueText(to)})
		}
	}
	return changes
}

// valueText formats a value returned by kind.get.
func valueText(v any) string {
	if list, ok := v.([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(v)
}

// CheckReload returns the reasons why c cannot replace old while mcmw runs. The error is Problems.
func (c *Config) CheckReload(old *Config) error {
	var problems Problems
	for _, change := range c.Changes(old) {
		if !Find(change.Option).Live() {
			problems = append(problems, c.problem(change.Option,
				"%q cannot replace %q while mcmw runs; accepted: a restart of mcmw",
				change.To, change.From))
		}
	}
	problems = append(problems, c.checkLargeChange(old)...)
	return problems.asError()
}

// fingerprintLength is the number of hexadecimal digits of a fingerprint.
const fingerprintLength = 12

// Fingerprint returns a short text that is equal for equal configurations, whatever their sources. It ignores local
// options.
func (c *Config) Fingerprint() string {
	var values []any
	for _, o := range Options {
		if o.traits&local == 0 && o.inFile() {
			values = append(values, o.Name, o.kind.get(c))
		}
	}
	return Fingerprint(values...)
}

// Fingerprint returns a short text that is equal for equal values.
func Fingerprint(values ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", values))
	return hex.EncodeToString(sum[:])[:fingerprintLength]
}
