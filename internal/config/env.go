package config

import (
	"fmt"
	"strings"

	"mcmw/internal/userinput"
)

const envPrefix = "MCMW_"

// envSettings returns the settings in the environment (entries as os.Environ returns them), in the table's order. An empty
// variable counts as unset: a compose file passes on an unset variable that way.
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
		if value, ok := values[o.Env()]; ok && !o.InFileOnly() {
			origin := Origin{sourceEnv, o.Env()}
			settings = append(settings, setting{o, o.split(value, origin), origin})
		}
	}
	return settings
}

// envWarnings reports variables that are not options but look like typos of one. Other MCMW_ variables may be somebody
// else's: Kubernetes sets variables such as MCMW_SERVICE_HOST in every container if there is a service called mcmw.
func envWarnings(environ []string) []string {
	var names, warnings []string
	for i := range Options {
		if !Options[i].InFileOnly() {
			names = append(names, strings.TrimPrefix(Options[i].Env(), envPrefix))
		}
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
