package chart

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

func TestInvalidValuesAreRefusedWithTheirKey(t *testing.T) {
	for dir, path := range map[string]string{chartDir: "testdata/refused.txt", loadDir: "testdata/refused-load.txt"} {
		for _, c := range mctest.Cases(t, path) {
			set := strings.TrimSpace(c.Text)
			eachHelm(t, set, func(t *testing.T, h *helm) {
				require.Contains(t, refused(t, h, dir, "--set", set), c.Want)
			})
		}
	}
}

func TestTheLoadOfAnEarlierChartIsRefusedWithItsNewPlace(t *testing.T) {
	for set, key := range map[string]string{
		"loadgen.enabled=true": "loadgen.enabled", "loadgen.jobs[0].name=a": "loadgen.jobs",
		"tests.load.enabled=true": "tests.load.enabled",
	} {
		eachHelm(t, set, func(t *testing.T, h *helm) {
			message := refused(t, h, chartDir, "--set", set+",fullnameOverride=cache")
			require.Contains(t, message, key+" is set, and the load is a chart of its own now, mcmw-load")
			require.Contains(t, message, "helm install mcmw-load deploy/helm/mcmw-load --set target.host=cache")
		})
	}
	// With --reuse-values the defaults of the earlier chart remain.
	render(t, helms["v4"], "--set", "loadgen.enabled=false,loadgen.replicas=1,tests.load.keys=10")
}
