package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"mcmw/internal/userinput"
)

// Sources are the sources of the configuration. The file is the one that they name.
type Sources struct {
	Flags *Flags // nil: none
	// Env is the environment, as os.Environ returns it.
	Env []string
	// Text replaces the contents of the file; nil: the file is read. It is ignored without a file.
	Text []byte
	// NoFiles: certificates and passwords are not read.
	NoFiles bool
	// Incomplete: the checks that involve several options are left out.
	Incomplete bool
}

// setting is one option's value in one source.
type setting struct {
	option *Option
	values []given
	origin Origin
}

// Load reads all sources and checks the options together. The error is Problems, which has everything that is wrong.
func Load(s Sources) (*Config, error) {
	c, problems := read(s)
	if !c.unread && !s.Incomplete {
		problems = append(problems, c.check()...)
	}
	if err := problems.asError(); err != nil {
		return nil, err
	}
	return c, nil
}

// read returns the configuration from the sources, and its problems. A refused value leaves the option unchanged.
func read(s Sources) (*Config, Problems) {
	c := newDefault()
	c.noFiles = s.NoFiles
	c.Warnings = envWarnings(s.Env)
	fromEnv := envSettings(s.Env)
	var fromFlags []setting
	var flagProblems Problems
	if s.Flags != nil {
		fromFlags, flagProblems = s.Flags.settings()
	}

	for _, one := range slices.Concat(fromEnv, fromFlags) {
		if one.option.Name == optionConfig {
			one.option.set(c, one.values, one.origin)
		}
	}
	var fromFile []setting
	var problems Problems
	if c.File != "" {
		fromFile, problems = readFile(c.File, s.Text, c.Origin(optionConfig))
		c.unread = fromFile == nil && problems != nil
	}
	for _, one := range slices.Concat(fromFile, fromEnv, fromFlags) { // in ascending order of precedence
		problems = append(problems, one.option.set(c, one.values, one.origin)...)
	}
	problems = append(problems, c.readPools()...)
	return c, append(problems, flagProblems...)
}

// newDefault returns a Config with every option's default.
func newDefault() *Config {
	c := &Config{origins: make(map[string]Origin), refused: make(map[string]bool)}
	for _, o := range Options {
		if o.Default == "" {
			continue
		}
		if problems := o.set(c, o.split(o.Default, Origin{}), Origin{}); problems != nil {
			panic("config: the table's default is refused: " + problems.Error())
		}
	}
	return c
}

// problem returns a Problem with the value of the option called name.
func (c *Config) problem(name, format string, args ...any) Problem {
	return Problem{Origin: c.Origin(name), Option: c.within() + name, Text: fmt.Sprintf(format, args...)}
}

// CheckText checks text as a configuration file called name, without flags and environment. The error is Problems.
func CheckText(name string, text []byte) error {
	_, err := Load(Sources{Env: []string{Find(optionConfig).Env() + "=" + name}, Text: text})
	return err
}

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

// envWarnings reports variables that name an option of the file, or look like a misspelt option. It ignores other
// variables that start with MCMW_: Kubernetes sets variables such as MCMW_SERVICE_HOST in every container if there is a
// service called mcmw.
func envWarnings(environ []string) []string {
	var names, warnings []string
	inFile := make(map[string]string) // variable -> option
	for _, o := range Options {
		if o.InFileOnly() {
			inFile[o.Env()] = o.Name
		} else {
			names = append(names, strings.TrimPrefix(o.Env(), envPrefix))
		}
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		short, ok := strings.CutPrefix(name, envPrefix)
		if !ok {
			continue
		}
		if option := inFile[name]; option != "" {
			warnings = append(warnings,
				fmt.Sprintf("environment variable %s is ignored, because %s is accepted only in the file", name,
					option))
		} else if near := userinput.Nearest(short, names); near != "" && near != short {
			warnings = append(warnings, fmt.Sprintf("environment variable %s is not an option; did you mean %s?", name,
				envPrefix+near))
		}
	}
	return warnings
}

// Flags holds the command line's settings, unchecked: Load checks them together with the other sources.
type Flags struct {
	values    []*flagValue
	arguments []string
}

// flagValue collects the values given for one flag, in order.
type flagValue struct {
	option *Option
	texts  []string
}

// Set implements pflag.Value. It never fails.
func (v *flagValue) Set(text string) error {
	v.texts = append(v.texts, text)
	return nil
}

// String implements pflag.Value.
func (v *flagValue) String() string {
	if v.texts == nil {
		return v.option.Default
	}
	return strings.Join(v.texts, ",")
}

// Type implements pflag.Value: it returns the placeholder of the value in the help. pflag shows none for "bool".
func (v *flagValue) Type() string {
	if v.option.kind.isToggle {
		return "bool"
	}
	return v.option.kind.placeholder
}

// AddFlags defines a flag on fs for every option that has one, and returns the Flags that will hold their values once
// fs has parsed.
func AddFlags(fs *pflag.FlagSet) *Flags {
	f := &Flags{}
	for _, o := range Options {
		if o.InFileOnly() {
			continue
		}
		v := &flagValue{option: o}
		f.values = append(f.values, v)
		flag := fs.VarPF(v, o.Name, o.Short, o.usage())
		if o.kind.isToggle {
			flag.NoOptDefVal = toggleWords[0]
		}
	}
	return f
}

// SetArguments sets the arguments that are not flags: in `-m first second third`, the servers after the first.
func (f *Flags) SetArguments(args []string) { f.arguments = args }

// settings returns the values given, in the table's order.
func (f *Flags) settings() ([]setting, Problems) {
	var settings []setting
	var problems Problems
	for _, v := range f.values {
		texts := v.texts
		if v.option.Name == optionServers {
			if len(texts) > 0 {
				texts = append(slices.Clone(texts), f.arguments...)
			} else {
				for _, a := range f.arguments {
					problems = append(problems, Problem{Origin{sourceFlag, "arguments"}, "", strconv.Quote(a) +
						" is unexpected; accepted: more servers, after -m or --servers and the first server"})
				}
			}
		}
		if len(texts) == 0 {
			continue
		}
		s := setting{option: v.option, origin: Origin{sourceFlag, v.option.flags()}}
		for _, text := range texts {
			s.values = append(s.values, v.option.split(text, s.origin)...)
		}
		settings = append(settings, s)
	}
	return settings, problems
}

// JoinToggles rewrites "-s true" as "-s=true" for every flag that needs no value, because the flag parser would treat
// the word after it as an argument. Everything else, and everything after "--", is unchanged.
func JoinToggles(args []string) []string {
	var names []string
	for _, o := range Options {
		if o.kind.isToggle {
			names = append(names, "--"+o.Name)
			if o.Short != "" {
				names = append(names, "-"+o.Short)
			}
		}
	}
	var joined []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			return append(joined, args[i:]...)
		case slices.Contains(names, args[i]) && i+1 < len(args) &&
			slices.Contains(toggleWords, strings.ToLower(args[i+1])):
			joined = append(joined, args[i]+"="+args[i+1])
			i++
		default:
			joined = append(joined, args[i])
		}
	}
	return joined
}
