package claim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/claim"
	"mcmw/lab/experiment"
	"mcmw/lab/experiments"
)

func TestTheClaimsOfTheReportsAreValid(t *testing.T) {
	claims, err := claim.Parse("experiments/claims.yaml", experiments.Claims)
	require.NoError(t, err)
	reports := map[string]int{}
	for _, c := range claims {
		reports[c.Report]++
	}
	require.Len(t, reports, 4, "the reports with suites of their own")

	suites := map[string]bool{}
	files, err := filepath.Glob("../experiments/*/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		if filepath.Base(filepath.Dir(file)) == "reports" {
			continue // tables, not experiments
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		e, err := experiment.Parse(file, text, false)
		require.NoError(t, err)
		suites[e.Name] = true
	}
	for _, c := range claims {
		for _, name := range c.Needs() {
			require.True(t, suites[name], "claim %s needs %s, which no file makes", c.ID, name)
		}
	}
}

// written returns a file with one claim whose rule is given.
func written(rule string) string {
	return "claims:\n  - id: one\n    report: kuechler\n    section: \"1\"\n    text: words\n    rule:\n      " + rule + "\n"
}

func TestEveryProblemOfAClaimIsReportedWithItsLine(t *testing.T) {
	const converges = "converges: {record: a, metric: client.throughput, over: clients, low: 1, high: 2}"
	const sides = "of: {record: a}, to: {record: b}"
	const design = "record: a, metric: client.throughput, factors: [S, W]"
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":            {"", "the file is empty"},
		"no claims":          {"claims: []\n", "no claims"},
		"not YAML":           {"claims: [\n", "not YAML"},
		"another key":        {"claim: []\n", "field claim not found"},
		"unknown key":        {written(strings.Replace(converges, "over:", "about:", 1)), "line 7: field about not found"},
		"id":                 {strings.Replace(written(converges), "id: one", "id: One", 1), `c.yaml:2: claim "One": id: expected lower-case`},
		"twice":              {written(converges) + strings.TrimPrefix(written(converges), "claims:\n"), "c.yaml:8: claim \"one\": the id occurs twice"},
		"report":             {strings.Replace(written(converges), "kuechler", "nobody", 1), `report "nobody": expected one of cetin, kuechler`},
		"section":            {strings.Replace(written(converges), `section: "1"`, `section: ""`, 1), "no section"},
		"text":               {strings.Replace(written(converges), "text: words", `text: ""`, 1), "no text"},
		"no rule":            {written("{}"), "the rule has 0 kinds; expected exactly one of all, converges"},
		"two rules":          {written(converges + "\n      law: {within: 0.1}"), "the rule has 2 kinds"},
		"record":             {written(strings.Replace(converges, "record: a", "record: A b", 1)), `record "A b": expected the name of an experiment`},
		"metric":             {written(strings.Replace(converges, "client.throughput", "speed", 1)), `metric "speed": expected a source and a metric`},
		"over":               {written(strings.Replace(converges, "clients", "wheels", 1)), `over: "wheels" is not a setting`},
		"range":              {written(strings.Replace(converges, "high: 2", "high: 0", 1)), "low 1 is not below high 0"},
		"infinite":           {written(strings.Replace(converges, "high: 2", "high: .inf", 1)), "expected a number"},
		"no range":           {written(strings.Replace(converges, ", low: 1, high: 2", "", 1)), "neither low nor high"},
		"last":               {written(strings.Replace(converges, "low: 1", "last: 1, low: 1", 1)), "last 1: expected from 2"},
		"within":             {written(strings.Replace(converges, "low: 1", "within: 2, low: 1", 1)), "within 2: expected more than 0 and less than 1"},
		"where":              {written(strings.Replace(converges, "record: a", "record: a, where: {wheels: 3}", 1)), `where: "wheels" is not a setting`},
		"saturates":          {written("saturates: {record: a, metric: client.throughput, over: clients}"), "saturates: neither low nor high"},
		"compare":            {written("compare: {metric: client.throughput, " + sides + "}"), "compare: neither low nor high"},
		"confidence":         {written("compare: {metric: client.throughput, " + sides + ", low: 1, confidence: 95}"), "confidence 95"},
		"no other side":      {written("compare: {metric: client.throughput, of: {record: a}, low: 1}"), `record "": expected the name`},
		"share of":           {written("share: {" + design + ", of: M, low: 0.5}"), `of "M": expected one of the factors S, W`},
		"one factor":         {written("share: {record: a, metric: client.throughput, factors: [S], of: S, low: 0.5}"), "factors: expected at least two"},
		"a factor twice":     {written("share: {record: a, metric: client.throughput, factors: [S, S], of: S, low: 0.5}"), `factors: "S" occurs twice`},
		"an unknown factor":  {written("share: {record: a, metric: client.throughput, factors: [S, Q], of: S, low: 0.5}"), `factors: "Q" is neither a setting`},
		"order of itself":    {written("order: {" + design + ", greater: S, than: [S]}"), "compared with itself"},
		"order of nothing":   {written("order: {" + design + ", greater: S}"), "than: expected at least one factor"},
		"model":              {written("model: {record: a, name: M/G/1, near: {low: 1}, error: 0.1}"), `name "M/G/1": expected one of M/M/1`},
		"law":                {written("law: {within: 3}"), "within 3: expected more than 0"},
		"law of what":        {written("law: {within: 0.1, throughput: server}"), "expected client or middleware"},
		"one of all":         {written("all: [{" + converges + "}]"), "all: 1 rules; expected at least two"},
		"wrong in all":       {written("all: [{" + converges + "}, {law: {within: 3}}]"), "all, rule 2: law: within 3"},
		"nested without end": {written(strings.Repeat("all: [{law: {within: 0.1}}, {", 6) + "law: {within: 0.1}" + strings.Repeat("}]", 6)), "nested more than 4 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := claim.Parse("c.yaml", []byte(tc.text))
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "c.yaml")
		})
	}
}

// FuzzParse checks that any file is read or refused.
func FuzzParse(f *testing.F) {
	f.Add(experiments.Claims)
	f.Add([]byte(written("law: {within: 0.1}")))
	f.Add([]byte(written("all: [{law: {within: 0.1}}, {law: &a {within: 0.2}}, {law: *a}]")))
	f.Fuzz(func(t *testing.T, text []byte) {
		claims, err := claim.Parse("c.yaml", text)
		if err != nil {
			return
		}
		for _, c := range claims {
			c.Needs()
		}
	})
}
