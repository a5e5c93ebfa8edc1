package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Configuration files of systems that have several pools, or change their pools, and the faults of these systems.

// gutterTTL is the TTL of values in a gutter, seconds.
const gutterTTL = 2

// split divides the servers evenly into n lists.
func split(servers []string, n int) (lists []string) {
	for part := range slices.Chunk(servers, len(servers)/n) {
		lists = append(lists, strings.Join(part, ", "))
	}
	return lists
}

// withShadow configures a pool and its shadow.
func withShadow(s *system, servers []string) string {
	return fmt.Sprintf("pools:\n  live: {servers: [%s]}\n  test: {servers: [%s=%s], replicas: 1, ack: "+
		"all}\nroutes:\n  - {default: live}\n"+
		"shadows:\n  - {of: live, to: test, share: 0.5, what: all}\n", strings.Join(servers, ", "), s.shadow.name,
		s.shadow.own())
}

// gutter configures a pool, and another one as its gutter.
func gutter(_ *system, servers []string) string {
	half := split(servers, 2)
	return fmt.Sprintf("pools:\n  own: {servers: [%s], gutter: spare, gutter-ttl: %ds}\n  spare: {servers: "+
		"[%s]}\nroutes: [{default: own}]\n", half[0], gutterTTL, half[1])
}

// twoPools configures two pools, each with the keys of some clients. The first also has the keys that clients share.
func twoPools(_ *system, servers []string) string {
	half := split(servers, 2)
	return fmt.Sprintf("pools:\n  first: {servers: [%s]}\n  second: {servers: [%s]}\nroutes: [{prefix: f1-1, pool: "+
		"second}, {prefix: f1-2, pool: second}, {default: first}]\n", half[0], half[1])
}

// movingRoutes configures twoPools. While s is rerouted, the second pool has no keys.
func movingRoutes(s *system, servers []string) string {
	text := fmt.Sprintf("change-step: %v\n", migrationStep) + twoPools(s, servers)
	if s.rerouted {
		text = strings.ReplaceAll(text, "pool: second", "pool: first")
	}
	return text
}

// longGutterTTL is the TTL of values in a gutter that is replaced and used again: longer than both changes take.
const longGutterTTL = time.Minute

// movingGutters configures a pool with two candidates for its gutter: the second one while s is rerouted, otherwise the
// first.
func movingGutters(s *system, servers []string) string {
	third := split(servers, 3)
	gutter := map[bool]string{false: "spare", true: "another"}[s.rerouted]
	return fmt.Sprintf("change-step: %v\npools:\n  own: {servers: [%s], gutter: %s, gutter-ttl: %v}\n  spare: "+
		"{servers: [%s]}\n  another: {servers: [%s]}\nroutes: [{default: own}]\n",
		migrationStep, third[0], gutter, longGutterTTL, third[1], third[2])
}

// movingKeysOfGutters configures two pools with a common gutter. While s is rerouted, the second pool has no keys.
func movingKeysOfGutters(s *system, servers []string) string {
	third := split(servers, 3)
	with := fmt.Sprintf("gutter: spare, gutter-ttl: %v", longGutterTTL)
	text := fmt.Sprintf("change-step: %v\npools:\n  first: {servers: [%s], %s}\n  second: {servers: [%s], %s}\n  "+
		"spare: {servers: [%s]}\n"+
		"routes: [{prefix: f1-1, pool: second}, {prefix: f1-2, pool: second}, {default: first}]\n", migrationStep,
		third[0], with, third[1], with, third[2])
	if s.rerouted {
		text = strings.ReplaceAll(text, "pool: second", "pool: first")
	}
	return text
}

// divertedFor is how long a server is down, so that its keys go to the gutter.
const divertedFor = 2 * time.Second

// killAndReroute changes the configuration while a server is down and its keys are in the gutter.
func killAndReroute(ctx context.Context, s *system) error {
	return errors.Join(kill(ctx, s), sleep(ctx, divertedFor), reroute(ctx, s))
}

// startAndRerouteAgain starts the server while the change is in progress. Then it changes the configuration back and
// once more, with the server down after each change. At the end it empties the servers that nobody reads any more.
func startAndRerouteAgain(ctx context.Context, s *system) error {
	err := start(ctx, s)
	for range 2 {
		err = errors.Join(err, sleep(ctx, reroutes), reroute(ctx, s), sleep(ctx, reroutes), kill(ctx, s),
			sleep(ctx, divertedFor), start(ctx, s))
	}
	return errors.Join(err, s.leave(ctx, time.Now(), s.servers[len(s.servers)/3:]))
}

// reroutes is how long a middleware takes to apply a changed configuration, also if it starts meanwhile. fileLag is how
// much later the second middleware reads its file than the first.
const (
	reroutes = 4*migrationStep + 6*time.Second // a timeout longer, which is up to 5 s
	fileLag  = time.Second
)

// reroute toggles s.rerouted and applies the changed configuration to both middlewares.
func reroute(ctx context.Context, s *system) error {
	s.rerouted = !s.rerouted
	text := s.settings.pools(s, s.names((*server).addr))
	write := func(instance *daemon, files ...string) (err error) {
		for _, file := range files {
			err = errors.Join(err, os.WriteFile(file, []byte(text), 0o600))
		}
		return errors.Join(err, instance.Signal(syscall.SIGHUP))
	}
	first := slices.Delete(slices.Clone(s.files), 1, 2) // every start of the first middleware adds a file
	return errors.Join(write(s.mcmw, first...), sleep(ctx, fileLag), write(s.others[0], s.files[1]))
}

// rerouteAgain waits until the routes have changed, changes them back, and once more, so that the first pool gets keys
// that it has held before. Then it empties the servers that nobody reads any more.
func rerouteAgain(ctx context.Context, s *system) error {
	for range 2 {
		if err := errors.Join(sleep(ctx, reroutes), reroute(ctx, s)); err != nil {
			return err
		}
	}
	return s.leave(ctx, time.Now().Add(reroutes), s.servers[len(s.servers)/2:])
}

// Migrations begin after all middlewares have started and clients are served.
const (
	migrationStep  = 2 * time.Second
	untilMigration = 3 * migrationStep
	migrationTakes = 7 * migrationStep
)

// migrations configures two pools. The keys move from the first to the second and back, the given number of times.
func migrations(times int) func(s *system, servers []string) string {
	return func(s *system, servers []string) string {
		half := split(servers, 2)
		text := fmt.Sprintf("change-step: %v\npools:\n  old: {servers: [%s]}\n  new: {servers: [%s]}\nroutes: "+
			"[{default: old}]\nmigrations:\n", migrationStep, half[0], half[1])
		from, to := "old", "new"
		for n := range times {
			start, end := s.migration(n)
			text += fmt.Sprintf("  - {from: %s, to: %s, start: %s, end: %s}\n", from, to, start.Format(time.RFC3339),
				end.Format(time.RFC3339))
			from, to = to, from
		}
		return text
	}
}

// warmUpTakes is how long the warm-up of a pool takes, with the phases before and after it.
const warmUpTakes = 12 * migrationStep

// warmsUp configures two pools. The second is warmed up from the first and then gets its keys.
func warmsUp(s *system, servers []string) string {
	half := split(servers, 2)
	start, _ := s.migration(0)
	return fmt.Sprintf("change-step: %v\npools:\n  old: {servers: [%s]}\n  new: {servers: [%s]}\nroutes: [{default: "+
		"old}]\n"+
		"migrations:\n  - {from: old, to: new, copy: missed, start: %s, end: %s}\n",
		migrationStep, half[0], half[1], start.Format(time.RFC3339), start.Add(warmUpTakes).Format(time.RFC3339))
}

// fillsVictim configures a pool with one cold server, the victim, which is filled from the others.
func fillsVictim(s *system, servers []string) string {
	start, _ := s.migration(0)
	return fmt.Sprintf("change-step: %v\npools:\n  one: {servers: [%s]}\nroutes: [{default: one}]\nmigrations:\n  - "+
		"{pool: one, cold: [%s], start: %s, end: %s}\n",
		migrationStep, strings.Join(servers, ", "), s.servers[victim].name, start.Format(time.RFC3339),
		start.Add(warmUpTakes).Format(time.RFC3339))
}

// whileCopying performs do while the keys of the first migration are being copied.
func whileCopying(do action) action {
	return func(ctx context.Context, s *system) error {
		if err := copies(0)(ctx, s); err != nil {
			return err
		}
		return do(ctx, s)
	}
}

// startFilled starts the victim again, empty, and waits until it has been filled and decides writes again.
func startFilled(ctx context.Context, s *system) error {
	begin, _ := s.migration(0)
	if err := errors.Join(start(ctx, s), s.leave(ctx, begin.Add(warmUpTakes), nil)); err != nil {
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

// coldVictim is the failing server of the pool that is warmed up; victim is in the other pool.
const coldVictim = 4

// startBoth starts both victims again and waits until the migration has ended. Then it empties the servers that nobody
// reads any more.
func startBoth(ctx context.Context, s *system) error {
	begin, _ := s.migration(0)
	return errors.Join(at(startServer, victim, coldVictim)(ctx, s),
		s.leave(ctx, begin.Add(warmUpTakes), s.servers[:len(s.servers)/2]))
}

// migration returns when migration n, counted from 0, starts and ends.
func (s *system) migration(n int) (start, end time.Time) {
	start = s.began.Add(untilMigration + time.Duration(n)*(migrationTakes+2*migrationStep)).UTC().Truncate(time.Second)
	return start, start.Add(migrationTakes)
}

// copies waits until the keys of migration n are being copied.
func copies(n int) action {
	return func(ctx context.Context, s *system) error {
		start, _ := s.migration(n)
		return sleep(ctx, time.Until(start.Add(2*migrationStep)))
	}
}

// migrated waits until migration n has ended, and empties the servers that nobody reads any more.
func migrated(n int) action {
	return func(ctx context.Context, s *system) error {
		_, end := s.migration(n)
		unread := s.servers[:len(s.servers)/2]
		if n%2 == 1 {
			unread = s.servers[len(s.servers)/2:]
		}
		return s.leave(ctx, end, unread)
	}
}

// leave waits until the migration with this configured end has ended, and empties the servers that nobody reads any
// more.
func (s *system) leave(ctx context.Context, end time.Time, unread []*server) error {
	if err := sleep(ctx, time.Until(end.Add(migrationStep))); err != nil {
		return err
	}
	for _, server := range unread {
		if err := server.empty(); err != nil {
			return err
		}
	}
	return nil
}
