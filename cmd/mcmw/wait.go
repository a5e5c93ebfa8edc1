package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/config"
	"mcmw/internal/middleware"
)

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
