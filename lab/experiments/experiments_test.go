package experiments_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/lab/experiment"
	"mcmw/lab/paper"
)

// suite is the experiments of the report of a name, in both profiles.
func suite(t *testing.T, name string) (full, quick []*experiment.Experiment) {
	t.Helper()
	files, err := filepath.Glob(name + "/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text, err := experiment.Read(file, os.ReadFile)
		require.NoError(t, err)
		for _, into := range []struct {
			to    *[]*experiment.Experiment
			quick bool
		}{{&full, false}, {&quick, true}} {
			e, err := experiment.Parse(file, text, into.quick)
			require.NoError(t, err)
			require.Equal(t, name+"-"+strings.TrimSuffix(filepath.Base(file), ".yaml"), e.Name,
				"the record is found again by its name")
			*into.to = append(*into.to, e)
		}
	}
	return full, quick
}

func TestEveryExperimentOfTheReportsCanBeRunInBothProfiles(t *testing.T) {
	for _, name := range []string{"kuechler", "pungas", "ribeiro", "cetin"} {
		require.Contains(t, paper.Names, name)
		full, quick := suite(t, name)
		require.NotEmpty(t, full)
		for i := range full {
			_, many := full[i].Runs()
			_, few := quick[i].Runs()
			require.Less(t, time.Duration(few)*quick[i].RunTime(), time.Duration(many)*full[i].RunTime(), full[i].Name)
			if full[i].Name != "ribeiro-02-think-time" {
				require.Equal(t, experiment.VMTestbed, full[i].Testbed, full[i].Name)
				require.Positive(t, full[i].Delay, full[i].Name)
			}
		}
	}
}

func TestTheFindingsAreAboutExperimentsThatExistAndHaveTheReportsDelay(t *testing.T) {
	for _, name := range paper.Names {
		report, err := paper.Load(name, "")
		require.NoError(t, err)
		full, quick := suite(t, name)
		made := map[string]bool{}
		for _, e := range full {
			made[e.Name] = true
		}
		for _, c := range report.Claims {
			travel, err := time.ParseDuration(report.Travel)
			require.NoError(t, err, name)
			for _, need := range c.Needs() {
				require.True(t, made[need], "%q needs %s, which no file makes", c.Text, need)
			}
			for _, e := range append(full, quick...) {
				if e.Testbed == experiment.VMTestbed {
					require.InDelta(t, travel.Seconds(), e.Delay.Seconds(), 1e-9, e.Name)
				}
			}
		}
	}
}

func TestARunOfTheReportOf2018IsExpectedToTakeAsLongAsItDoes(t *testing.T) {
	full, _ := suite(t, "kuechler")
	for _, e := range full {
		if e.Phases.Duration == time.Second { // in their records such runs began 5.5 s to 7 s after one another
			require.InDelta(t, 6.25, e.RunTime().Seconds(), 0.75, e.Name)
		}
	}
}

// What make lab-paper promises.
func TestTheQuickProfilesOfTheReportOf2018TakeLessThanFortyMinutes(t *testing.T) {
	_, quick := suite(t, "kuechler")
	var all time.Duration
	for _, e := range quick {
		_, runs := e.Runs()
		all += time.Duration(runs) * e.RunTime()
	}
	require.Less(t, all, 40*time.Minute)
}

func TestEveryExperimentWithSystemsCanBeRunInBothProfiles(t *testing.T) {
	for _, pattern := range []string{"performance/*.yaml", "scaling/*.yaml", "hot-keys/*.yaml", "writers/*.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := experiment.Read(file, os.ReadFile)
			require.NoError(t, err)
			for _, quick := range []bool{false, true} {
				e, err := experiment.Parse(file, text, quick)
				require.NoError(t, err)
				require.Equal(t, strings.ReplaceAll(strings.TrimSuffix(file, ".yaml"), "/", "-"), e.Name,
					"the record is found again by its name")
			}
		}
	}
	for _, file := range []string{"agreement.yaml", "bench.yaml"} {
		text, err := experiment.Read(file, os.ReadFile)
		require.NoError(t, err)
		_, err = experiment.Parse(file, text, false)
		require.NoError(t, err)
	}
}
