package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"mcmw/lab/process"
)

// ownOptions are the options of mcmw that every system sets itself.
var ownOptions = []string{"admin", "auth-file", "config", "listen", "log-format", "resolver", "servers"}

// defaultAge is the --hot-age if none is given.
const defaultAge = "100ms"

// addGiven adds the given options to those of every scenario, and has mcmw check them.
func (s *Suite) addGiven() error {
	if len(s.Given) == 0 {
		return nil
	}
	checked := map[string]bool{}
	for i := range s.scenarios {
		c := &s.scenarios[i]
		for _, given := range s.Given {
			name, value, ok := strings.Cut(given, "=")
			switch set, isSet := option(c.settings.args, name); {
			case !ok || name == "" || strings.HasPrefix(name, "-"):
				return fmt.Errorf("option %q: expected name=value, such as hot-keys=serve", given)
			case slices.Contains(ownOptions, name):
				return fmt.Errorf("option %q: every scenario sets %s itself; leave it out", given, name)
			case slices.Contains(c.settings.fixed, name):
				return fmt.Errorf("option %q: scenario %s sets %s itself; leave it out", given, c.Name, name)
			case isSet && set != value:
				return fmt.Errorf("option %q: scenario %s sets --%s %s", given, c.Name, name, set)
			case !isSet:
				c.settings.args = with(c.settings.args, "--"+name+"="+value)
			}
		}
		if key := strings.Join(c.settings.args, " "); !checked[key] {
			checked[key] = true
			if err := s.check(c.settings); err != nil {
				return fmt.Errorf("options %s in scenario %s: %w", strings.Join(s.Given, " "), c.Name, err)
			}
		}
	}
	return nil
}

// check has mcmw check the arguments for a system.
func (s *Suite) check(o settings) error {
	servers := make([]string, o.servers)
	for i := range servers {
		servers[i] = fmt.Sprintf("127.0.0.%d", i+2)
	}
	check := exec.Command(s.programs.Mcmw,
		slices.Concat([]string{"config", "check", "--servers", strings.Join(servers, ",")}, o.args)...)
	check.Env = process.Environment()
	var stderr bytes.Buffer
	check.Stderr = &stderr
	if err := check.Run(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return fmt.Errorf("%s", cmp.Or(first, err.Error()))
	}
	return nil
}

// option returns the last value of an option in args; "true" for an option without a value.
func option(args []string, name string) (value string, ok bool) {
	for i, arg := range args {
		if text, found := strings.CutPrefix(arg, "--"+name+"="); found {
			value, ok = text, true
		} else if arg == "--"+name {
			value, ok = "true", true
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
				value = args[i+1]
			}
		}
	}
	return value, ok
}

// withHotKeys returns o with the settings that answers from memory need, if mcmw gives any: servers that are new
// enough, and how old the answers may be.
func (o settings) withHotKeys() settings {
	if mode, _ := option(o.args, "hot-keys"); mode != "serve" {
		return o
	}
	o.recent = true
	text, isSet := option(o.args, "hot-age")
	if !isSet {
		text = defaultAge
		o.args = with(o.args, "--hot-age", defaultAge)
	}
	if age, err := time.ParseDuration(text); err == nil { // mcmw has checked it
		o.age = cmp.Or(o.age, age)
	}
	return o
}
