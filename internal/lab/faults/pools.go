package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"mcmw/internal/lab/process"
)

// The files of systems that have several pools, or change them, and the faults that wait for such a change.

// gutterTTL is how long a value lives in the gutter of a system that has one, seconds.
const gutterTTL = 2

// halves returns the servers as two lists.
func halves(servers []string) (first, second string) {
	half := len(servers) / 2
	return strings.Join(servers[:half], ", "), strings.Join(servers[half:], ", ")
}

// withShadow is a pool, and its shadow.
func withShadow(s *system, servers []string) string {
	return fmt.Sprintf("pools:\n  live: {servers: [%s]}\n  test: {servers: [%s=%s], replicas: 1, ack: all}\nroutes:\n  - {default: live}\n"+
		"shadows:\n  - {of: live, to: test, share: 0.5, what: all}\n", strings.Join(servers, ", "), s.shadow.name, s.shadow.own())
}

// gutter is a pool, and another one that is its gutter.
func gutter(_ *system, servers []string) string {
	own, spare := halves(servers)
	return fmt.Sprintf("pools:\n  own: {servers: [%s], gutter: spare, gutter-ttl: %ds}\n  spare: {servers: [%s]}\nroutes: [{default: own}]\n", own, gutterTTL, spare)
}

// twoPools have the keys of some clients each, and the first one those that clients share.
func twoPools(_ *system, servers []string) string {
	first, second := halves(servers)
	return fmt.Sprintf("pools:\n  first: {servers: [%s]}\n  second: {servers: [%s]}\nroutes: [{prefix: f1-1, pool: second}, {prefix: f1-2, pool: second}, {default: first}]\n", first, second)
}

// movingRoutes are twoPools, of which the second has no keys any more while s is rerouted.
func movingRoutes(s *system, servers []string) string {
	text := fmt.Sprintf("change-step: %v\n", migrationStep) + twoPools(s, servers)
	if s.rerouted {
		text = strings.ReplaceAll(text, "pool: second", "pool: first")
	}
	return text
}

// thirds returns the servers as three lists.
func thirds(servers []string) (first, second, third string) {
	n := len(servers) / 3
	return strings.Join(servers[:n], ", "), strings.Join(servers[n:2*n], ", "), strings.Join(servers[2*n:], ", ")
}

// longGutterTTL is how long a value lives in a gutter that a pool has no more, and then again: longer than that takes.
const longGutterTTL = time.Minute

// movingGutters are a pool and two more, of which the second is its gutter while s is rerouted, otherwise the first.
func movingGutters(s *system, servers []string) string {
	own, spare, another := thirds(servers)
	gutter := map[bool]string{false: "spare", true: "another"}[s.rerouted]
	return fmt.Sprintf("change-step: %v\npools:\n  own: {servers: [%s], gutter: %s, gutter-ttl: %v}\n  spare: {servers: [%s]}\n  another: {servers: [%s]}\nroutes: [{default: own}]\n",
		migrationStep, own, gutter, longGutterTTL, spare, another)
}

// movingKeysOfGutters are two pools with one gutter, of which the second has no keys any more while s is rerouted.
func movingKeysOfGutters(s *system, servers []string) string {
	first, second, spare := thirds(servers)
	with := fmt.Sprintf("gutter: spare, gutter-ttl: %v", longGutterTTL)
	text := fmt.Sprintf("change-step: %v\npools:\n  first: {servers: [%s], %s}\n  second: {servers: [%s], %s}\n  spare: {servers: [%s]}\n"+
		"routes: [{prefix: f1-1, pool: second}, {prefix: f1-2, pool: second}, {default: first}]\n", migrationStep, first, with, second, with, spare)
	if s.rerouted {
		text = strings.ReplaceAll(text, "pool: second", "pool: first")
	}
	return text
}

// divertedFor is how long a server is down, so that its keys go to the gutter.
const divertedFor = 2 * time.Second

// killAndReroute makes the change while a server is down, whose keys are in the gutter.
func killAndReroute(ctx context.Context, s *system) error {
	return errors.Join(kill(ctx, s), sleep(ctx, divertedFor), reroute(ctx, s))
}

// startAndRerouteAgain starts the server while that goes on; then it makes the change the other way and once more, with the server down behind each. Then it empties the
// servers that nobody reads any more.
func startAndRerouteAgain(ctx context.Context, s *system) error {
	err := start(ctx, s)
	for range 2 {
		err = errors.Join(err, sleep(ctx, reroutes), reroute(ctx, s), sleep(ctx, reroutes), kill(ctx, s), sleep(ctx, divertedFor), start(ctx, s))
	}
	return errors.Join(err, s.leave(ctx, time.Now(), s.servers[len(s.servers)/3:]))
}

// reroutes is how long a middleware takes for a change of routes, one that starts meanwhile included, and fileLag how much later than the first one the second
// middleware reads its file.
const (
	reroutes = 4*migrationStep + time.Second
	fileLag  = time.Second
)

// reroute gives the keys of some clients to the first pool, or back to the second.
func reroute(ctx context.Context, s *system) error {
	s.rerouted = !s.rerouted
	text := s.settings.pools(s, s.names((*server).addr))
	write := func(of *process.Process, files ...string) (err error) {
		for _, file := range files {
			err = errors.Join(err, os.WriteFile(file, []byte(text), 0o600))
		}
		return errors.Join(err, of.Signal(syscall.SIGHUP))
	}
	first := slices.Delete(slices.Clone(s.files), 1, 2) // it has another one with each start
	return errors.Join(write(s.mcmw, first...), sleep(ctx, fileLag), write(s.second, s.files[1]))
}

// rerouteAgain waits until the change of routes is over, makes it the other way, and once more: the first pool gets keys of which it has held others. Then it empties
// the servers that nobody reads any more.
func rerouteAgain(ctx context.Context, s *system) error {
	for range 2 {
		if err := errors.Join(sleep(ctx, reroutes), reroute(ctx, s)); err != nil {
			return err
		}
	}
	return s.leave(ctx, time.Now().Add(reroutes), s.servers[len(s.servers)/2:])
}

// Migrations begin when all middlewares run and clients are served.
const (
	migrationStep  = 2 * time.Second
	untilMigration = 3 * migrationStep
	migrationTakes = 7 * migrationStep
)

// migrations are two pools whose keys move from the first to the second, and then from there, so many times.
func migrations(times int) func(s *system, servers []string) string {
	return func(s *system, servers []string) string {
		first, second := halves(servers)
		text := fmt.Sprintf("change-step: %v\npools:\n  old: {servers: [%s]}\n  new: {servers: [%s]}\nroutes: [{default: old}]\nmigrations:\n", migrationStep, first, second)
		from, to := "old", "new"
		for n := range times {
			start, end := s.migration(n)
			text += fmt.Sprintf("  - {from: %s, to: %s, start: %s, end: %s}\n", from, to, start.Format(time.RFC3339), end.Format(time.RFC3339))
			from, to = to, from
		}
		return text
	}
}

// warmUpTakes is how long a pool is warmed up, with the phases before and behind that.
const warmUpTakes = 12 * migrationStep

// warmsUp are two pools, of which the second is warmed up from the first, and gets its keys then.
func warmsUp(s *system, servers []string) string {
	first, second := halves(servers)
	start, _ := s.migration(0)
	return fmt.Sprintf("change-step: %v\npools:\n  old: {servers: [%s]}\n  new: {servers: [%s]}\nroutes: [{default: old}]\n"+
		"migrations:\n  - {from: old, to: new, copy: missed, start: %s, end: %s}\n",
		migrationStep, first, second, start.Format(time.RFC3339), start.Add(warmUpTakes).Format(time.RFC3339))
}

// fillsVictim is a pool of which one server is filled from the others.
func fillsVictim(s *system, servers []string) string {
	start, _ := s.migration(0)
	return fmt.Sprintf("change-step: %v\npools:\n  one: {servers: [%s]}\nroutes: [{default: one}]\nmigrations:\n  - {pool: one, cold: [%s], start: %s, end: %s}\n",
		migrationStep, strings.Join(servers, ", "), s.servers[victim].name, start.Format(time.RFC3339), start.Add(warmUpTakes).Format(time.RFC3339))
}

// killFilled kills the server that is filled.
func killFilled(ctx context.Context, s *system) error {
	if err := copies(0)(ctx, s); err != nil {
		return err
	}
	s.kill(victim)
	return nil
}

// startFilled starts it again, empty, and waits until it was filled and decides again.
func startFilled(ctx context.Context, s *system) error {
	start, _ := s.migration(0)
	if err := errors.Join(s.startServer(ctx, victim), s.leave(ctx, start.Add(warmUpTakes), nil)); err != nil {
		return err
	}
	for _, a := range s.admins {
		m, err := a.metrics(ctx)
		if err != nil {
			return err
		}
		for name, copied := range m {
			if strings.HasPrefix(name, "mcmw_migration_keys_copied_total{") && copied > 0 {
				return nil
			}
		}
	}
	return errors.New("no mcmw has copied a key to the server that came back")
}

// coldVictim is the server that fails of the pool that is warmed up; victim is one of the other.
const coldVictim = 4

// killBoth kills a server of each pool while one is warmed up.
func killBoth(ctx context.Context, s *system) error {
	if err := copies(0)(ctx, s); err != nil {
		return err
	}
	s.kill(victim)
	s.kill(coldVictim)
	return nil
}

// startBoth starts them again, and waits until the migration is done; then it empties the servers that nobody reads any more.
func startBoth(ctx context.Context, s *system) error {
	start, _ := s.migration(0)
	return errors.Join(s.startServer(ctx, victim), s.startServer(ctx, coldVictim), s.leave(ctx, start.Add(warmUpTakes), s.servers[:len(s.servers)/2]))
}

// migration returns when the n-th migration starts and ends.
func (s *system) migration(n int) (start, end time.Time) {
	start = s.began.Add(untilMigration + time.Duration(n)*(migrationTakes+2*migrationStep)).UTC().Truncate(time.Second)
	return start, start.Add(migrationTakes)
}

// copies waits until the keys of the n-th migration are being copied.
func copies(n int) func(context.Context, *system) error {
	return func(ctx context.Context, s *system) error {
		start, _ := s.migration(n)
		return sleep(ctx, time.Until(start.Add(2*migrationStep)))
	}
}

// migrated waits until the n-th migration is done, and empties the servers that nobody reads any more.
func migrated(n int) func(context.Context, *system) error {
	return func(ctx context.Context, s *system) error {
		_, end := s.migration(n)
		left := s.servers[:len(s.servers)/2]
		if n%2 == 1 {
			left = s.servers[len(s.servers)/2:]
		}
		return s.leave(ctx, end, left)
	}
}

// leave waits until a migration is done that ends at a moment, and empties the servers that are left.
func (s *system) leave(ctx context.Context, end time.Time, left []*server) error {
	if err := sleep(ctx, time.Until(end.Add(migrationStep))); err != nil {
		return err
	}
	for _, server := range left {
		if err := server.empty(); err != nil {
			return err
		}
	}
	return nil
}
