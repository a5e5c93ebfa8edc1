package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"mcmw/internal/mctest"
)

// mcmw returns the path of the program, which is built once.
var mcmw = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mcmw-chart")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "mcmw")
	cmd := exec.Command("go", "-C", "../..", "build", "-o", path, "./cmd/mcmw")
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := mcmw(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// check returns the Job that runs before a deployment, and its container.
func (o *objects) check(t *testing.T) (*batchv1.Job, corev1.Container) {
	t.Helper()
	job := named[*batchv1.Job](t, o, "mcmw-check")
	return job, job.Spec.Template.Spec.Containers[0]
}

// runCheck runs the command of that Job with the file and the environment that it has there.
func runCheck(t *testing.T, o *objects) (output string, err error) {
	t.Helper()
	program, err := mcmw()
	require.NoError(t, err)
	_, c := o.check(t)
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file, []byte(named[*corev1.ConfigMap](t, o, "mcmw-check").Data["mcmw.yaml"]),
		0o600))
	cmd := exec.Command(program, c.Args...)
	for name, value := range environment(c) {
		if value == filepath.Join(c.VolumeMounts[0].MountPath, "mcmw.yaml") {
			value = file
		}
		if !strings.HasPrefix(name, "GO") {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The Job runs before the objects of the release exist: it has all that it needs.
func TestTheCheckReadsTheConfigurationOfThePodsAndNeedsNothingOfTheRelease(t *testing.T) {
	forEach(t, func(t *testing.T, o *objects) {
		var job *batchv1.Job
		for _, j := range of[*batchv1.Job](o) {
			if strings.HasSuffix(j.Name, "-check") {
				job = j
			}
		}
		require.NotNil(t, job)
		owner, proxy := o.proxy(t)
		c := job.Spec.Template.Spec.Containers[0]
		require.Equal(t, environment(proxy), environment(c))
		require.Equal(t, proxy.Image, c.Image)
		require.Equal(t, append([]string{"config", "check", "--no-files"}, proxy.Args[1:]...), c.Args)
		file := named[*corev1.ConfigMap](t, o, job.Spec.Template.Spec.Volumes[0].ConfigMap.Name)
		require.Equal(t, named[*corev1.ConfigMap](t, o, owner.owner.GetName()).Data, file.Data)
		require.Len(t, job.Spec.Template.Spec.Volumes, 1)
		for _, hook := range []map[string]string{job.Annotations, file.Annotations} {
			require.Equal(t, "pre-install,pre-upgrade", hook["helm.sh/hook"])
		}
		require.Less(t, file.Annotations["helm.sh/hook-weight"], "0", "the file comes first")
		for _, e := range c.Env {
			if from := e.ValueFrom; from != nil && from.SecretKeyRef != nil {
				require.True(t, *from.SecretKeyRef.Optional)
			}
		}
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil {
				require.True(t, *from.ConfigMapRef.Optional)
			}
		}
	})
	off := render(t, helms["v4"], "--set", "configCheck=false")
	require.Empty(t, of[*batchv1.Job](off))
}

func TestTheCheckAcceptsWhatMcmwAccepts(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"--values", filepath.Join(chartDir, "values-minimal.yaml")},
		{"--values", filepath.Join(chartDir, "values-production.yaml")},
		{
			"--set",
			"tls.secretName=a,tls.clientCA=true,auth.secretName=b,serverTLS.enabled=true,serverTLS.secretName=c," +
				"memcached.tls.secretName=c,serverAuth.secretName=d",
		},
		{"--values", valuesFile(t, pools+"  routes: [{default: a}]\n  shadows: [{of: a, to: b, share: 0.1}]\n")},
		{"--set", "config.large-values=16m,config.max-value=16m"},
	} {
		output, err := runCheck(t, render(t, helms["v4"], args...))
		require.NoError(t, err, "%s: %s", args, output)
	}
}

// valuesFile returns the path of a file with values.
func valuesFile(t *testing.T, values string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(path, []byte(values), 0o600))
	return path
}

// pools are values with three pools; options of mcmw can follow.
const pools = `memcached: {enabled: false}
resources: {limits: {memory: 512Mi}}
config:
  replicas: 1
  max-value: 16m
  writers: several
  pools:
    a: {servers: [a1, a2, a3]}
    b: {servers: [b1, b2, b3]}
    c: {servers: [c1, c2, c3]}
`

// What mcmw refuses is the same in every environment. Some of it shows that the check has all that decides.
func TestAWrongConfigurationIsRefusedBeforeAnythingIsDeployed(t *testing.T) {
	for i, wrong := range mctest.Cases(t, "testdata/refused-values.txt") {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			args := []string{"--values", valuesFile(t, wrong.Text)}
			if _, stderr, err := helms["v4"].template(t, chartDir, args...); err != nil {
				require.Contains(t, stderr, wrong.Want, wrong.Text)
				return
			}
			output, err := runCheck(t, render(t, helms["v4"], args...))
			require.Error(t, err, "deployed: %s", wrong.Text)
			require.Contains(t, output, wrong.Want, wrong.Text)
		})
	}
}

func TestAnOldMemcachedIsAcceptedWhereOneWriterOrOneCopySuffices(t *testing.T) {
	for _, more := range []string{"replicas=1", "config.replicas=1"} {
		render(t, helms["v4"], "--set", "memcached.image.tag=1.6.18,"+more)
	}
	render(t, helms["v4"], "--set-string", "memcached.image.tag=latest")
}
