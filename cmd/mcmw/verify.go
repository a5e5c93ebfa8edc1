package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"mcmw/internal/config"
	"mcmw/internal/discover"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/spell"
	"mcmw/internal/sweep"
	"mcmw/internal/terminal"
)

const (
	// lookUpTimeout bounds the lookup of the names of the servers.
	lookUpTimeout = 10 * time.Second
	// verifyReport is the time between two lines of progress, verifyRefresh the time between two updates of the line on
	// a terminal.
	verifyReport  = 10 * time.Second
	verifyRefresh = 200 * time.Millisecond
)

func newVerifyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "verify-replicas [flags] [-m server server...]",
		Short: "Compare the replicas of all keys on the servers now",
		Long: "Compare the copies of every key on the servers that `mcmw serve` would use with this configuration. " +
			"List the keys whose values\n" +
			"or flags differ, as hashes or, with --log-keys, by name. A missing copy is not a difference. Nothing is " +
			"changed, and clients\n" +
			"can continue to write. Copies with the same version are assumed to be equal, unless --values is " +
			"given.\n\n" +
			"The exit code is 0 if all copies agree, and 1 if some differ or a server could not be compared.",
		Example: "  mcmw verify-replicas --config mcmw.yaml\n" +
			"  mcmw verify-replicas --servers cache1,cache2,cache3 --replicas 2 --values --sweep-rate 100000",
	}
	values := command.Flags().Bool("values", false, "compare the values of all keys, even if their versions are equal")
	most := 20
	command.Flags().Var(&checked[int]{&most, between(0, 1e9), "number"}, "list",
		"maximum `number` of differing keys to list")
	runWith(command, func(cmd *cobra.Command, c *config.Config) error {
		servers, err := lookUp(cmd.Context(), c)
		if err != nil {
			return err
		}
		v := &verification{out: cmd.OutOrStdout(), progress: cmd.ErrOrStderr(), most: most, keys: c.LogKeys}
		if terminal.Is(v.progress) {
			v.screen = terminal.NewScreen(v.progress)
		}
		return v.run(cmd.Context(), c.With(servers), *values)
	})
	return command
}

// lookUp returns the servers of c after looking up their names, with those of the list in force that are away.
func lookUp(ctx context.Context, c *config.Config) ([]route.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	finder := discover.NewFinder(discover.Options{})
	defer finder.Close()
	servers, err := finder.Find(ctx, c.AllLookups())
	if err == nil {
		inForce, _ := middleware.InForce(ctx, c.With(servers))
		finder.Know(ctx, c.AllLookups(), inForce)
		servers, err = finder.Refresh(ctx, c.AllLookups())
	}
	if err == nil {
		err = c.CheckServers(servers)
	}
	return servers, err
}

// verification shows a comparison of the replicas.
type verification struct {
	out      io.Writer // the result
	progress io.Writer
	screen   *terminal.Screen // of progress; nil: that is no terminal
	most     int              // the maximum number of keys to list
	keys     bool             // list keys by name

	listed int
	shown  time.Time // when progress was last shown
}

func (v *verification) run(ctx context.Context, o middleware.Options, values bool) error {
	if p := o.Pools[0]; p.Name == "" && (p.Options.Replicas == 1 || len(p.Servers) == 1) {
		_, err := fmt.Fprintln(v.out, "nothing to compare: every key is on one server")
		return err
	}
	begin := time.Now()
	v.shown = begin
	p, err := middleware.Verify(ctx, o, middleware.Verification{Values: values, Found: v.found, Progress: v.report})
	v.clear()
	if err != nil {
		return fmt.Errorf("not all replicas could be compared: %w", err)
	}
	if p.Differ > 0 {
		return fmt.Errorf("%s with differing copies; compared %s on %s in %s", count(p.Differ, "key"),
			count(p.Keys, "copy"), count(uint64(p.Of), "server"), spell.Time(float64(time.Since(begin))))
	}
	_, err = fmt.Fprintf(v.out, "all replicas agree: %s on %s, compared in %s\n", count(p.Keys, "copy"),
		count(uint64(p.Of), "server"), spell.Time(float64(time.Since(begin))))
	return err
}

// count returns n with the singular or plural of thing.
func count(n uint64, thing string) string {
	return fmt.Sprintf("%d %s", n, english.PluralWord(int(n), thing, ""))
}

// found lists a key that differs.
func (v *verification) found(d sweep.Difference) error {
	if v.listed++; v.listed > v.most {
		return nil
	}
	v.clear()
	name := fmt.Sprintf("%q", d.Key)
	if !v.keys {
		name = fmt.Sprintf("sha256 %x...", sha256.Sum256([]byte(d.Key)))[:len("sha256 ")+16]
	}
	// Copies that are equal have the same letter.
	letters := map[uint64]string{}
	var copies []string
	for i, c := range d.Copies {
		state := "none"
		if c.Held {
			if letters[c.Sum] == "" {
				letters[c.Sum] = string(rune('A' + len(letters)))
			}
			state = letters[c.Sum]
		}
		copies = append(copies, d.Servers[i]+" "+state)
	}
	_, err := fmt.Fprintf(v.out, "%s differs: %s\n", name, strings.Join(copies, ", "))
	return err
}

// report shows the progress of the comparison: on a terminal in one line that is updated, otherwise as a line from time
// to time.
func (v *verification) report(p sweep.Progress) {
	pause := verifyReport
	if v.screen != nil {
		pause = verifyRefresh
	}
	if time.Since(v.shown) < pause {
		return
	}
	v.shown = time.Now()
	part := ""
	if p.Items > 0 {
		part = fmt.Sprintf(", %d %%", min(100, 100*p.Listed/p.Items))
	}
	line := fmt.Sprintf("%s (%d of %d)%s: %d copies compared, %s differing", p.Server, p.Number, p.Of, part, p.Keys,
		count(p.Differ, "key"))
	if v.screen == nil {
		fmt.Fprintln(v.progress, line)
		return
	}
	v.screen.Show([]string{line})
}

// clear removes the line of progress from the terminal.
func (v *verification) clear() {
	if v.screen != nil {
		v.screen.Show(nil)
	}
}
