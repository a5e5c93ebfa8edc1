package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

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
