package config

import (
	"fmt"
	"strings"

	"mcmw/internal/userinput"
)

const envPrefix = "MCMW_"

// envSettings returns what the environment (entries as os.Environ returns them) says, in the table's order. A variable
// that is empty counts as not set: that is how a compose file passes one on that is not set.
func envSettings(environ []string) []setting {
	values := make(map[string]string)
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			values[name] = value
		}
	}
	var settings []setting
	for i := range Options {
		o := &Options[i]
		if value, ok := values[o.Env()]; ok {
			origin := Origin{sourceEnv, o.Env()}
			settings = append(settings, setting{o, o.split(value, origin), origin})
		}
	}
	return settings
}

// envWarnings names the variables that are no options but look like slips of one. Other MCMW_ variables may well be
// somebody else's: Kubernetes gives every container such as MCMW_SERVICE_HOST for a service called mcmw.
func envWarnings(environ []string) []string {
	var names, warnings []string
	for i := range Options {
		names = append(names, strings.TrimPrefix(Options[i].Env(), envPrefix))
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		short, ok := strings.CutPrefix(name, envPrefix)
		if !ok {
			continue
		}
		if near := userinput.Nearest(short, names); near != "" && near != short {
			warnings = append(warnings, fmt.Sprintf("environment variable %s is no option; did you mean %s?", name, envPrefix+near))
		}
	}
	return warnings
}
