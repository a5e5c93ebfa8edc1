package faults

import (
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"mcmw/internal/lab/process"
)

// ownOptions are the options of mcmw that a system sets itself.
var ownOptions = []string{"admin", "auth-file", "config", "listen", "log-format", "resolver", "servers"}

// usualAge is the --hot-age where none is given.
const usualAge = "100ms"

// give adds the given options to what every scenario starts mcmw with, and asks mcmw whether it takes them.
func (s *Suite) give() error {
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
				return fmt.Errorf("option %q: every scenario sets %s itself", given, name)
			case slices.Contains(c.settings.fixed, name):
				return fmt.Errorf("option %q: scenario %s sets %s itself", given, c.Name, name)
			case isSet && set != value:
				return fmt.Errorf("option %q: scenario %s sets --%s %s", given, c.Name, name, set)
			case !isSet:
				c.settings.args = with(c.settings.args, "--"+name+"="+value)
			}
		}
		if key := strings.Join(c.settings.args, " "); !checked[key] {
			checked[key] = true
			if err := s.accepts(c.settings); err != nil {
				return fmt.Errorf("options %s in scenario %s: %w", strings.Join(s.Given, " "), c.Name, err)
			}
		}
	}
	return nil
}

// accepts asks mcmw whether it takes the arguments of a system with so many servers.
func (s *Suite) accepts(o settings) error {
	servers := make([]string, o.servers)
	for i := range servers {
		servers[i] = fmt.Sprintf("127.0.0.%d", i+2)
	}
	check := exec.Command(s.programs.Mcmw, slices.Concat([]string{"config", "check", "--servers", strings.Join(servers, ",")}, o.args)...)
	check.Env = process.Environment()
	var said bytes.Buffer
	check.Stderr = &said
	if err := check.Run(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("%s", cmp.Or(first, err.Error()))
	}
	return nil
}

// option returns the last value of an option in args, true for one without.
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

// served returns o with what answers from memory need, if mcmw is to give any; they may be as old as o says, or as mcmw is told.
func (o settings) served() settings {
	if mode, _ := option(o.args, "hot-keys"); mode != "serve" {
		return o
	}
	o.recent = true
	text, isSet := option(o.args, "hot-age")
	if !isSet {
		text = usualAge
		o.args = with(o.args, "--hot-age", usualAge)
	}
	if age, err := time.ParseDuration(text); err == nil { // mcmw has said what is wrong with it
		o.age = cmp.Or(o.age, age)
	}
	return o
}
