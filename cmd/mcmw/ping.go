package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/route"
	"mcmw/internal/secret"
	"mcmw/internal/spell"
)

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
