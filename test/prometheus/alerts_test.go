package prometheus

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestEveryAlertFiresForItsCauseAndIsOtherwiseSilent(t *testing.T) {
	const file = root + "/rules/tests.yml"
	out, err := exec.Command("promtool", "test", "rules", file).CombinedOutput()
	require.NoError(t, err, "promtool, of Debian's package prometheus: %s", out)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &tests))
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Name] = true
			} else {
				silent[a.Name] = true
			}
		}
	}
	for _, rule := range rulesOf(t) {
		if rule.Alert != "" {
			require.True(t, fires[rule.Alert], "no test provokes %s", rule.Alert)
			require.True(t, silent[rule.Alert], "no test says that %s is silent while nothing is wrong", rule.Alert)
		}
	}
}

func TestEveryAlertHasARunbookAndEveryRunbookAnAlert(t *testing.T) {
	files, err := filepath.Glob(root + "/docs/runbooks/*.md")
	require.NoError(t, err)
	without := map[string]bool{}
	for _, file := range files {
		without[strings.TrimPrefix(file, root+"/")] = true
	}
	for _, rule := range rulesOf(t) {
		if rule.Alert == "" {
			continue
		}
		book := rule.Annotations["runbook_url"]
		require.Equal(t, "docs/runbooks/"+rule.Alert+".md", book)
		text, err := os.ReadFile(filepath.Join(root, book))
		require.NoError(t, err)
		require.Regexp(t, "^# "+rule.Alert+"\n", string(text))
		delete(without, book)
	}
	delete(without, "docs/runbooks/README.md")
	require.Empty(t, without, "runbooks without an alert")
}
