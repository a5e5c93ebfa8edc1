package config

import (
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// allows reports whether s accepts value. It knows the keywords that Schema uses.
func allows(s map[string]any, value any) bool {
	if values, ok := s["enum"].([]any); ok {
		return slices.Contains(values, value)
	}
	types, ok := s["type"].([]string)
	if !ok {
		types = []string{s["type"].(string)}
	}
	switch v := value.(type) {
	case int:
		return slices.Contains(types, "integer") && v >= s["minimum"].(int) && v <= s["maximum"].(int)
	case string:
		if words, ok := s["enum"].([]string); ok {
			return slices.Contains(words, v)
		}
		p, ok := s["pattern"].(string)
		return slices.Contains(types, "string") && (!ok || regexp.MustCompile(p).MatchString(v))
	}
	return false
}

// The samples are values as an operator might write them. Only the option can tell that a size or a time is out of
// range, because of the unit.
func TestTheSchemaOfAnOptionAcceptsWhatTheOptionAccepts(t *testing.T) {
	samples := []string{
		"1", "-1", "3", "5", "70000", "99999999999", "0s", "5s", "1m30s", "1.5s", "5 s", "s", "16m", "16mb", "x",
		"auto", "all", "none", "off", "yes",
		"any", "quorum", "evrything", "1/3", "1/0", "3/1", "rendezvous", "twemproxy", "{}", "{{}}", "10.0.0.1:53",
		"[::1]:53", "10.0.0.1",
	}
	outOfRange := regexp.MustCompile("^is (too|out of range)")
	for _, o := range Options {
		if o.isList() || o.InFileOnly() {
			continue
		}
		require.True(t, allows(o.Schema(), asInYAML(o.Default)), "%s: its default %s", o.Name, o.Default)
		if o.kind.isToggle {
			continue
		}
		_, hasForm := o.Schema()["pattern"]
		_, _, hasUnit := o.Range()
		for _, sample := range samples {
			err := o.kind.set(&Config{}, given{text: sample})
			if err != nil && hasUnit && outOfRange.MatchString(err.Error()) {
				continue
			}
			if o.kind.isLoose {
				require.True(t, err != nil || !hasForm || allows(o.Schema(), sample), "%s: %q", o.Name, sample)
				continue
			}
			require.Equal(t, err == nil, allows(o.Schema(), asInYAML(sample)), "%s: %q: %v", o.Name, sample, err)
		}
	}
}

func TestTheRangeOfAnOptionIsWhatItAccepts(t *testing.T) {
	for _, o := range Options {
		least, most, ok := o.Range()
		if !ok {
			require.NotContains(t, []string{"SIZE", "TIME"}, o.kind.placeholder, o.Name)
			continue
		}
		format := func(n int64) string { return formatSize(int(n)) }
		if o.kind.placeholder == "TIME" {
			format = func(n int64) string { return formatDuration(time.Duration(n)) }
		}
		for _, n := range []int64{least, most} {
			require.NoError(t, o.kind.set(&Config{}, given{text: format(n)}), o.Name)
		}
		for _, n := range []int64{least - 1, most + 1} {
			require.Error(t, o.kind.set(&Config{}, given{text: format(n)}), o.Name)
		}
	}
}

func TestAModeIsNoNumberThatMayHaveBeenReadAsOctal(t *testing.T) {
	schema := Find("unix-mask").Schema()
	require.True(t, allows(schema, "0770"))
	require.True(t, allows(schema, 770))
	require.False(t, allows(schema, 0o770), "Helm would pass on 504")
}

// asInYAML returns text as a YAML decoder does. A number with a leading zero is in quotes, because decoders differ.
func asInYAML(text string) any {
	if n, err := strconv.Atoi(text); err == nil && strconv.Itoa(n) == text {
		return n
	}
	return text
}
