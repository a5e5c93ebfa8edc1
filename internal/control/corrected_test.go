package control

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/middleware"
	"mcmw/internal/stats"
)

func TestAFileThatIsCorrectedToTheCurrentConfigurationIsLoggedOnce(t *testing.T) {
	const good = "servers: [dns+cache]\n"
	corrected := func(why string) []string {
		return []string{`{"level":"INFO","msg":"the file has the current configuration again","why":"` + why + `"}`}
	}
	for name, tc := range map[string]struct {
		wrong string
		err   error // of the middleware
		why   string
	}{
		"after an error in the file":        {good + "depth: 0\n", nil, "the file has changed"},
		"after a refusal by the middleware": {good + "depth: 1\n", errors.New("not today"), "the file has changed"},
		"after it had to wait": {
			good + "depth: 1\n", middleware.NotYet{Why: errors.New("not yet")}, "it had to wait",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, good)
				r.dns.set(nil, "10.0.0.1")
				r.run(t)
				r.m.fail(tc.err)
				r.write(t, tc.wrong)
				pass(time.Minute)
				require.Len(t, r.logged(t), 1)
				r.write(t, good)
				pass(time.Minute)
				require.Equal(t, corrected(tc.why), r.logged(t))
				require.EqualValues(t, 1, r.reloads()[stats.ReloadUnchanged])
				r.write(t, good+"# a comment\n")
				pass(time.Minute)
				require.Empty(t, r.logged(t))
				require.EqualValues(t, 1, r.reloads()[stats.ReloadUnchanged])
				require.Empty(t, r.m.all())
			})
		})
	}
	t.Run("by SIGHUP", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, good)
			r.dns.set(nil, "10.0.0.1")
			r.run(t)
			r.write(t, good+"depth: 0\n")
			pass(time.Minute)
			require.Len(t, r.logged(t), 1)
			r.write(t, good)
			r.sighup()
			pass(time.Minute)
			require.Equal(t,
				[]string{`{"level":"INFO","msg":"the configuration was read again and has not changed","why":"SIGHUP"}`},
				r.logged(t))
		})
	})
	t.Run("while the start waits for names", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, good)
			go func() { r.AwaitServers(t.Context()) }()
			r.write(t, good+"depth: 0\n")
			pass(time.Minute)
			r.logged(t)
			r.write(t, good)
			pass(time.Minute)
			require.Contains(t, r.logged(t), corrected("the file has changed")[0])
		})
	})
}
