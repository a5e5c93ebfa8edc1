package config

import (
	"fmt"
	"strings"

	"mcmw/internal/userinput"
)

const envPrefix = "MCMW_"

// envSettings returns the settings in the environment (entries as os.Environ returns them), in the table's order. An
// empty variable counts as unset, because a compose file passes on an unset variable as an empty one.
func envSettings(environ []string) []setting {
	values := make(map[string]string)
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			values[name] = value
		}
	}
	var settings []setting
	for _, o := range Options {
		if value, ok := values[o.Env()]; ok && !o.InFileOnly() {
			origin := Origin{sourceEnv, o.Env()}
			settings = append(settings, setting{o, o.split(value, origin), origin})
		}
	}
	return settings
}

// envWarnings reports variables that look like a misspelt option. It ignores other variables that start with MCMW_:
// Kubernetes sets variables such as MCMW_SERVICE_HOST in every container if there is a service called mcmw.
func envWarnings(environ []string) []string {
	var names, warnings []string
	for _, o := range Options {
		if !o.InFileOnly() {
			names = append(names, strings.TrimPrefix(o.Env(), envPrefix))
		}
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		short, ok := strings.CutPrefix(name, envPrefix)
		if !ok {
			continue
		}
		if near := userinput.Nearest(short, names); near != "" && near != short {
			warnings = append(warnings, fmt.Sprintf("environment variable %s is not an option; did you mean %s?", name,
				envPrefix+near))
		}
	}
	return warnings
}
