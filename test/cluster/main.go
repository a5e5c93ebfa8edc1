// Command cluster brings up a Kubernetes of one node on this machine, for trying and testing mcmw, and takes it down.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcmw/test/cluster/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(exitCode(run(ctx, os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

// run is the whole program. Results go to stdout, progress and errors to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	name := node.DefaultName
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "A Kubernetes of one node on this machine, to try and test mcmw on",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.PersistentFlags().StringVar(&name, "name", name, "`name` of the cluster; several can exist at a time")
	command := func(use, short string,
		do func(ctx context.Context, c *node.Cluster, args []string) error,
	) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, args []string) error {
				c, err := node.New(name)
				if err != nil {
					return err
				}
				return do(cmd.Context(), c, args)
			},
		}
	}
	withImages := true
	up := command("up", "Bring the cluster up", func(ctx context.Context, c *node.Cluster, _ []string) error {
		return up(ctx, c, withImages, stdout, stderr)
	})
	up.Flags().BoolVar(&withImages, "images", withImages,
		"build the images of mcmw, of its load generator, and of the other programs in the tests")
	down := command("down", "Take the cluster down and remove everything of it",
		func(ctx context.Context, c *node.Cluster, _ []string) error {
			return c.Down(ctx)
		})
	enter := command("exec -- command [argument]...", "Run a command in the cluster: kubectl, helm, or any other",
		func(ctx context.Context, c *node.Cluster, args []string) error {
			cmd, err := c.Command(ctx, args[0], args[1:]...)
			if err != nil {
				return err
			}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
			return cmd.Run()
		})
	enter.Args = cobra.MinimumNArgs(1)
	enter.Example = "  cluster exec -- kubectl get pods --all-namespaces"
	root.AddCommand(up, down, enter)
	for _, hidden := range []*cobra.Command{
		command("init", "The cluster's first process", func(_ context.Context, c *node.Cluster, _ []string) error {
			return c.Init()
		}),
		command("supervise", "The process that starts the cluster's programs",
			func(ctx context.Context, c *node.Cluster, _ []string) error { return c.Supervise(ctx) }),
	} {
		hidden.Hidden = true
		root.AddCommand(hidden)
	}
	return root.ExecuteContext(ctx)
}

// up brings a cluster up and prints how to use it.
func up(ctx context.Context, c *node.Cluster, withImages bool, stdout, stderr io.Writer) error {
	start := time.Now()
	if err := c.Up(ctx, stderr); err != nil {
		return err
	}
	up := time.Now()
	if !withImages {
		fmt.Fprintf(stdout, "The cluster is up after %.1f s. Its logs are in %s.\n", up.Sub(start).Seconds(), c.Logs())
		return nil
	}
	source, err := node.ModuleRoot()
	if err != nil {
		return err
	}
	if err := loadImages(ctx, c, stderr); err != nil {
		return errors.Join(err, c.Down(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(stdout, `The cluster is up after %.1f s, its images after %.1f s more. Its logs are in %s.

%s`, up.Sub(start).Seconds(), time.Since(up).Seconds(), c.Logs(), hints(source))
	return nil
}

// hints returns commands to continue with. They work from any directory.
func hints(source string) string {
	enter := fmt.Sprintf("  go -C %s run . exec -- ", filepath.Join(source, "test", "cluster"))
	return enter + "helm install mcmw " + filepath.Join(source, "deploy", "helm", "mcmw") + "\n" + enter +
		"kubectl get pods\n"
}

// exitCode prints err, if there is one, and returns the exit code. For a command in the cluster that is the command's
// own.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	fmt.Fprintf(stderr, "cluster: %v\n", err)
	return 1
}
