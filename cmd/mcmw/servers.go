package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"mcmw/internal/backend"
	"mcmw/internal/config"
	"mcmw/internal/discover"
	"mcmw/internal/link"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/secret"
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

// waitPause is the time between two looks at the servers.
const waitPause = 500 * time.Millisecond

func newWaitCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "wait --refilled [flags] [-m server server...]",
		Short: "Wait until all servers have been refilled",
		Long: "Wait until every server that `mcmw serve` would use with this configuration answers, and says that it " +
			"holds what the other\n" +
			"replicas hold: a server that was restarted is refilled by the mcmw that serve. Use it between the " +
			"restarts of two servers.\n\n" +
			"The exit code is 1 if that takes longer than --for.",
		Example: "  systemctl restart memcached@1 && mcmw wait --refilled --for 10m --config mcmw.yaml",
	}
	refilled := command.Flags().Bool("refilled", false, "wait for servers to be refilled")
	patience := time.Hour
	parse := func(text string) (time.Duration, error) {
		d, err := parseSpan(text)
		if err != nil || d == 0 {
			err = errors.New("accepted: a duration such as 30s or 1m30s")
		}
		return d, err
	}
	command.Flags().Var(&checked[time.Duration]{&patience, parse, "duration"}, "for", "wait for at most this long")
	runWith(command, func(cmd *cobra.Command, c *config.Config) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		return waitRefilled(ctx, c, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	command.PreRunE = func(*cobra.Command, []string) error {
		if !*refilled {
			return config.Problems{{Text: "nothing to wait for; accepted: --refilled"}}
		}
		return nil
	}
	return command
}

// waitRefilled waits until all servers of c have been refilled, or ctx ends. progress gets a line whenever the servers
// that it waits for change.
func waitRefilled(ctx context.Context, c *config.Config, out, progress io.Writer) error {
	servers, err := lookUp(ctx, c)
	if err != nil {
		return err
	}
	var before []string
	for {
		names, err := middleware.Lacking(ctx, c.With(servers))
		switch {
		case err != nil:
			return err
		case ended(ctx) && before == nil:
			return errors.New("the servers could not all be asked in time")
		case ended(ctx): // this look may have been cut off
			return fmt.Errorf("not refilled in time: %s", strings.Join(before, ", "))
		case len(names) == 0:
			_, err = fmt.Fprintln(out, "all servers are refilled")
			return err
		case !slices.Equal(names, before):
			fmt.Fprintf(progress, "waiting for %s\n", strings.Join(names, ", "))
			before = names
		}
		select {
		case <-ctx.Done():
		case <-time.After(waitPause):
		}
	}
}

// ended reports whether ctx has ended, or its deadline has passed, which a connection may notice before ctx does.
func ended(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(deadline)
}

const (
	// pingTimeout bounds the connect, and then each request.
	pingTimeout = 5 * time.Second
	// pingPause is the time between attempts.
	pingPause = 500 * time.Millisecond
	// pingExpires is the value's expiry, seconds, in case the value cannot be deleted.
	pingExpires = 60
)

// pingOptions are the flags of `mcmw ping`.
type pingOptions struct {
	patience time.Duration
	tls      bool
	files    secret.ClientFiles
	authFile string
}

func newPingCommand() *cobra.Command {
	var o pingOptions
	command := &cobra.Command{
		Use:   "ping ADDRESS",
		Short: "Set, get and delete a value through a memcached or a middleware",
		Long: "Set, get and delete a value at ADDRESS (host:port or unix:/path). The exit code is 0 if every reply " +
			"was the expected one.\n" +
			"Use it to test an installation.",
		Example: "  mcmw ping 127.0.0.1:11311\n  mcmw ping cache:11311 --for 30s --tls-ca ca.crt --auth-file user",
		Args:    oneAddress(checkAddress),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.tls = o.tls || o.files != secret.ClientFiles{}
			return ping(cmd.Context(), args[0], o, cmd.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.Var(&checked[time.Duration]{&o.patience, parseSpan, "duration"}, "for",
		"retry until it works, for at most this long")
	flags.BoolVar(&o.tls, "tls", false, "use TLS")
	flags.StringVar(&o.files.CA, "tls-ca", "",
		"`file` with the trusted certificate authorities (default: those of the system)")
	flags.StringVar(&o.files.Cert, "tls-cert", "", "`file` with the client certificate")
	flags.StringVar(&o.files.Key, "tls-key", "", "`file` with the private key of the client certificate")
	flags.StringVar(&o.files.Name, "tls-name", "",
		"host `name` that the server's certificate must be valid for (default: the host of ADDRESS)")
	flags.StringVar(&o.authFile, "auth-file", "", "`file` with one line user:password to authenticate with")
	command.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	return command
}

// checkAddress refuses what is no address of a memcached.
func checkAddress(address string) error {
	if network, host := backend.Network(address); network == "tcp" {
		if _, _, err := net.SplitHostPort(host); err != nil {
			return fmt.Errorf("%q is not an address; expected host:port or unix:/path", address)
		}
	}
	return nil
}

// ping repeats the exchange until it succeeds or o.patience has passed, and writes the result to w.
func ping(ctx context.Context, address string, o pingOptions, w io.Writer) error {
	var access backend.Access
	var err error
	if o.tls {
		if access.TLS, err = secret.ClientTLS(o.files, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
	}
	if o.authFile != "" {
		if access.Login, err = secret.Login(o.authFile, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
	}
	server := backend.NewServer(route.Server{Name: address, Addr: address}, backend.Options{
		ServerOptions: backend.ServerOptions{ConnectTimeout: pingTimeout}, Changes: new(atomic.Uint32), Access: access,
		Log: slog.New(slog.DiscardHandler),
	})
	for begin := time.Now(); ; {
		attempt := time.Now()
		err := server.Talk(ctx, exchange)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s: set, got and deleted a value in %s\n", address,
				spell.Time(float64(time.Since(attempt))))
			return err
		}
		if ctx.Err() != nil || time.Since(begin) >= o.patience {
			return fmt.Errorf("%s: %w", address, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pingPause):
		}
	}
}

// exchange sets, gets and deletes a value with commands that every memcached knows.
func exchange(l *link.Link) error {
	key, value := "mcmw-ping-"+rand.Text(), rand.Text()
	for _, step := range []struct{ request, reply string }{
		{fmt.Sprintf("set %s 0 %d %d\r\n%s", key, pingExpires, len(value), value), "STORED"},
		{"get " + key, fmt.Sprintf("VALUE %s 0 %d\n%s\nEND", key, len(value), value)},
		{"delete " + key, "DELETED"},
	} {
		if err := l.Expect(step.request, strings.Split(step.reply, "\n")...); err != nil {
			return err
		}
	}
	return nil
}
