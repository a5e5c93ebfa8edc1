package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// live are the options whose values a reload may change while mcmw runs. A reload that changes any other option is
// refused.
var live = []string{
	optionServers, optionPools, optionRoutes, optionShadows, optionMigrations, "replicas", "read", "ack", "writers",
	"change-step", "get-error", "failure-limit", "rejoin", "missed-memory", "sweep-every", "sweep-rate", "sharded",
	optionLarge, optionItemSize, "ring", "hash", "hash-tag",
	"resolve-interval", "remove-after", "resolver",
	"workers", "depth", "queue", "pool",
	"timeout", "stall-after", "connect-timeout", "drain-timeout",
	"log-level", "watch-interval",
}

// local are the options that may differ between the instances of a fleet, in front of the same servers.
var local = []string{
	"listen", "listen-port", "announce", "admin", "log-level", "log-format", "procs", "watch-interval",
	"stats-file", "stats-window", "sample", "slow", "request-log", "log-keys", "hot-keys", "hot-age", "hot-memory",
	"zone",
}

// Live says whether a reload may change the value while mcmw runs.
func (o *Option) Live() bool { return slices.Contains(live, o.Name) }

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
		if !slices.Contains(local, o.Name) && o.inFile() {
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
