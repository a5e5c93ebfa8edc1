package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/config"
	"mcmw/internal/middleware"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

func newConfigExplainCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "explain KEY... [flags]",
		Short: "Show which servers hold a key, which of them serve its requests, and why",
		Long: "Show which servers would hold each KEY with the configuration that `mcmw serve` would use, which of " +
			"them its requests would\n" +
			"go to, and why. Names of servers are looked up, but no server is contacted. A running mcmw does not " +
			"read from servers that\n" +
			"are down or may hold old values; the output does not show this. All arguments are keys, so separate " +
			"several servers by commas.",
		Example: "  mcmw config explain user:42 --config mcmw.yaml\n" +
			"  mcmw config explain user:42 user:43 --servers cache1,cache2,cache3 --replicas 2",
		Args: cobra.MinimumNArgs(1),
	}
	flags := addOptions(command)
	command.RunE = func(cmd *cobra.Command, keys []string) error {
		c, err := config.Load(config.Sources{Flags: flags, Env: os.Environ()})
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := checkKey(key, c.Limits); err != nil {
				return err
			}
		}
		servers, err := lookUp(cmd.Context(), c)
		if err != nil {
			return err
		}
		router, err := c.Router(servers)
		if err != nil {
			return err
		}
		for i, key := range keys {
			if i > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			if err := explain(cmd.OutOrStdout(), key, router, c, servers); err != nil {
				return err
			}
		}
		return nil
	}
	return command
}

// checkKey refuses a text that cannot be the key of a classic command.
func checkKey(key string, l protocol.Limits) error {
	if longest := l.WithDefaults().MaxKey; key == "" || len(key) > longest ||
		strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("the key %q; accepted: 1 to %d bytes without spaces and control characters", key, longest)
	}
	return nil
}

// explain shows where key is placed and where its requests go. servers are the servers after lookups.
func explain(w io.Writer, key string, r *route.Router, c *config.Config, servers []route.Server) error {
	in, stored := r.At([]byte(key))
	fmt.Fprintln(w, key)
	options := c.With(servers)
	pool, placement := options.Pools[in.Number()].Name, options.Pools[in.Number()].Options
	if r.Named() {
		routes := count(uint64(len(c.Routes.Prefixes)), "route")
		why := "the default: no prefix of " + routes + " matches"
		if prefix := r.Table().Prefix([]byte(key)); prefix != "" {
			why = fmt.Sprintf("prefix %q is the longest match of %s", prefix, routes)
		}
		fmt.Fprintf(w, "  pool     %s (%s)\n", pool, why)
	}
	switch {
	case len(stored) == 0:
		_, err := fmt.Fprintf(w, "  refused, because the key is empty without the prefix\n")
		return err
	case len(stored) < len(key):
		fmt.Fprintf(w, "  stored   as %s, without the prefix\n", stored)
	}
	holders := in.Replicas(stored, nil)
	names := func(servers []int) string { return namesOf(r.Servers(), servers) }
	var why []string
	why = append(why, fmt.Sprintf("replicas %d of %s", in.N(), count(uint64(len(in.Servers())), "server")))
	if len(in.Servers()) > 1 {
		text := "ring " + placement.Ring.String()
		if placement.Ring != route.RingRendezvous {
			text += ", hash " + cmp.Or(placement.Hash, route.HashFNV1a64).String()
		}
		why = append(why, text)
		if hashed := in.Hashed(stored); len(hashed) < len(stored) {
			why = append(why, fmt.Sprintf("hash-tag %s: %q is hashed", placement.HashTag, hashed))
		}
	}
	fmt.Fprintf(w, "  held by  %s (%s)\n", names(holders), strings.Join(why, "; "))
	for _, s := range holders {
		server := r.Servers()[s]
		fmt.Fprintf(w, "           %s at %s", server.Name, server.Addr)
		if server.Zone != "" {
			fmt.Fprintf(w, ", zone %s", server.Zone)
		}
		fmt.Fprintln(w)
	}
	read := r.ForReads().In([]byte(key))
	readers, reads := readersOf(read, stored)
	reads = names(readers) + reads
	ways, pools := []*route.Group{in}, []string{pool}
	if read != in {
		from := options.Pools[read.Number()].Name
		ways, pools = append(ways, read), append(pools, from)
		reads = fmt.Sprintf("%s: of pool %s, and sees only what is written there, not what is written to pool %s",
			reads, from, pool)
	}
	fmt.Fprintf(w, "  get      %s\n", reads)
	tokens, how := readersOf(in, stored)
	how = names(tokens) + how
	if len(tokens) > 1 && options.Pools[in.Number()].Writers != middleware.WritersSeveral {
		how += fmt.Sprintf("; %s if items have no versions", names(holders[:1]))
	}
	fmt.Fprintf(w, "  gets     %s\n", how)
	fmt.Fprintf(w, "  set      %s\n", names(holders))
	for _, in := range ways {
		if gutter := in.Gutter(); gutter != nil {
			o, holders := options.Pools[in.Number()], in.Replicas(stored, nil)
			fmt.Fprintf(w, "  gutter   %s of pool %s, for up to %d s, while %s down\n",
				names(gutter.Replicas(stored, nil)), o.Options.Gutter, o.Options.GutterTTL,
				map[bool]string{
					true:  names(holders) + " is",
					false: "all of " + names(holders) + " are",
				}[len(holders) == 1])
		}
	}
	explainMigrations(w, key, pool, r, &options)
	for _, name := range pools {
		show := func(kind, text string) { fmt.Fprintf(w, "  %-8s %s\n", kind, text) }
		if err := options.ExplainRecipients(name, key, show); err != nil {
			return err
		}
	}
	return nil
}

// namesOf returns the names of the servers at these indices.
func namesOf(servers []route.Server, at []int) string {
	names := make([]string, len(at))
	for i, s := range at {
		names[i] = servers[s].Name
	}
	return strings.Join(names, ", ")
}

// readersOf returns the servers of the pool in to which a get of the key can go, and how one of them is chosen.
func readersOf(in *route.Group, stored []byte) (readers []int, why string) {
	holders := in.Replicas(stored, nil)
	if len(holders) == 1 {
		return holders, ""
	}
	readers, why = slices.Clone(holders), "in turn"
	switch in.Read() {
	case route.ReadPrimary:
		readers, why = readers[:1], "the first"
	case route.ReadLeastBusy:
		why = "the least busy one"
	case route.ReadNearest:
		if readers = in.Nearest(readers); len(readers) < len(holders) {
			why = "those of zone " + in.Servers()[readers[0]-in.Base()].Zone + " in turn"
		}
	}
	return readers, fmt.Sprintf(" (read %s: %s)", in.Read(), why)
}

// explainMigrations shows where key, which is routed to pool, moves or has moved.
func explainMigrations(w io.Writer, key, pool string, all *route.Router, o *middleware.Options) {
	for _, g := range slices.SortedFunc(slices.Values(o.Migrations), func(a, b middleware.Migration) int {
		return a.Start.Compare(b.Start)
	}) {
		if g.From != pool {
			continue
		}
		to := slices.IndexFunc(o.Pools, func(p middleware.PoolOptions) bool { return p.Name == g.To })
		names := namesOf(all.Servers(), all.Pools()[to].Replicas([]byte(key), nil))
		phase, since, until := g.Phase(time.Now(), o.ChangeStep)
		inside := g.Target() != g.To
		if inside {
			fmt.Fprintf(w, "  fills    %s of pool %s: phase %s", g.Target(), g.To, phase)
		} else {
			fmt.Fprintf(w, "  migrates to %s of pool %s: phase %s", names, g.To, phase)
		}
		if !since.IsZero() {
			fmt.Fprintf(w, " since %s", since.Format(time.RFC3339))
		}
		if !until.IsZero() {
			fmt.Fprintf(w, " until %s", until.Format(time.RFC3339))
		}
		fmt.Fprintln(w)
		if inside {
			if phase.Active() {
				fmt.Fprintln(w,
					"           the key's other servers decide writes and answer reads that miss there; those are "+
						"written after them")
			}
			continue
		}
		explainReads(w, &g, phase, until, names)
		if phase != route.MigrationDone {
			return
		}
		pool = g.To
	}
}

// explainReads shows which pool answers reads of a key of g in that phase, and why. names are the key's servers in the
// new pool.
func explainReads(w io.Writer, g *middleware.Migration, phase route.Phase, until time.Time, names string) {
	switch {
	case phase == route.MigrationWarmUp:
		fmt.Fprintf(w,
			"  get      first %s of pool %s, which is being warmed up; after a miss or failure those of pool %s\n",
			names, g.To, g.From)
		fmt.Fprintf(w,
			"           those of pool %s decide writes, and answer gets, gat and mg with effects or c; those of pool "+
				"%s are written after them\n", g.From, g.To)
	case phase.ReadsNew():
		fmt.Fprintf(w, "  get      %s of pool %s, which is read in phase %s\n", names, g.To, phase)
	case !g.WarmsUp:
	case !g.Back.IsZero() && phase > route.MigrationWarmUp:
		fmt.Fprintf(w, "  get      only those of pool %s: the warm-up of pool %s was given up\n", g.From, g.To)
	default:
		fmt.Fprintf(w, "  get      those of pool %s until %s: pool %s is not read in phase %s\n", g.From,
			until.Format(time.RFC3339), g.To, phase)
	}
}
