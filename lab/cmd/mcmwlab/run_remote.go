package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"mcmw/lab/experiment"
	"mcmw/lab/testbed"
	"mcmw/lab/testbed/ssh"
)

// elsewhere moves an experiment to the testbed selected by flags.
func (f *runFlags) elsewhere(e *experiment.Experiment) error {
	kind, because := f.testbed, "--testbed"
	for _, implied := range []struct {
		kind, flag string
		given      bool
	}{
		{experiment.SSHTestbed, "--inventory", f.inventory != ""},
		{experiment.KubernetesTestbed, "--values", len(f.values) > 0},
	} {
		switch {
		case !implied.given:
		case kind != "" && kind != implied.kind:
			return fmt.Errorf("%s selects the testbed %s, but %s selects %s; expected only one of them", implied.flag,
				implied.kind, because, kind)
		default:
			kind, because = implied.kind, implied.flag
		}
	}
	if kind == "" {
		return nil
	}
	if err := e.On(kind); err != nil {
		return fmt.Errorf("%s: %w", because, err)
	}
	if f.inventory != "" {
		e.Inventory = f.inventory
	}
	if len(f.values) > 0 {
		e.Kubernetes.Values = f.values
	}
	return nil
}

// openSSH creates the testbed on the hosts of an inventory.
func (f *runFlags) openSSH(ctx context.Context, e *experiment.Experiment) (bed testbed.Testbed, local testbed.Programs,
	err error,
) {
	if e.Inventory == "" {
		return nil, local,
			usageError{errors.New("the testbed ssh needs hosts; expected --inventory FILE, or testbed: {kind: ssh, " +
				"inventory: FILE} (docs/testbeds.md)")}
	}
	if e.Uses(experiment.Server, experiment.Redis) {
		return nil, local,
			usageError{errors.New("server: redis: the testbed ssh only starts memcached; expected the testbed local " +
				"or vm")}
	}
	text, err := os.ReadFile(e.Inventory)
	if err != nil {
		return nil, local, usageError{fmt.Errorf("the inventory of the testbed ssh: %w", err)}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, local, err
	}
	inventory, err := experiment.ParseInventory(e.Inventory, text, home)
	if err != nil {
		return nil, local, usageError{err}
	}
	if err := f.programs(e, &local); err != nil {
		return nil, local, usageError{err}
	}
	hosts, err := ssh.Open(ctx, inventory, local)
	if err != nil {
		return nil, local, err
	}
	return testbed.OnHosts(hosts, ssh.Programs, e.CPUs), local, nil
}
