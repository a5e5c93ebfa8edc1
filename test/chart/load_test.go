package chart

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// notes returns the notes of an installation.
func notes(t *testing.T, args ...string) string {
	t.Helper()
	// Helm 3 writes notes only with a cluster.
	stdout, stderr, err := helms["v4"].run(t,
		append([]string{"install", release, chartDir, "--namespace", namespace, "--dry-run=client"}, args...)...)
	require.NoError(t, err, stderr)
	_, notes, ok := strings.Cut(stdout, "\nNOTES:\n")
	require.True(t, ok)
	return notes
}

// loads returns the commands of loads in a text.
func loads(text string) (commands []string) {
	for _, match := range regexp.MustCompile(`(memtier_benchmark|/mcmwlab load) [^\n&]+`).FindAllString(text, -1) {
		commands = append(commands, strings.TrimSpace(match))
	}
	return commands
}

func TestALoadStoresWhatItReads(t *testing.T) {
	memtier := loads(notes(t, "--set", "loadgen.enabled=true"))
	require.Len(t, memtier, 2)
	require.Contains(t, memtier[0], "--ratio 1:0 --key-pattern P:P --requests allkeys")
	keys := regexp.MustCompile(`--key-minimum \d+ --key-maximum \d+ --data-size \d+`)
	require.NotEmpty(t, keys.FindString(memtier[0]))
	require.Equal(t, keys.FindString(memtier[0]), keys.FindString(memtier[1]))
	lab := loads(notes(t, "--set", "loadgen.enabled=true,loadgen.generator=mcmwlab"))
	require.Len(t, lab, 1)
	require.Contains(t, lab[0], "--populate")
}

// testLoad returns the pod that runs a load during helm test.
func testLoad(t *testing.T, args ...string) *corev1.Pod {
	t.Helper()
	return named[*corev1.Pod](t, render(t, helms["v4"], args...), "mcmw-test-load")
}

func TestHelmTestRunsALoadOnTheAzurePools(t *testing.T) {
	pod := testLoad(t, "--values", chartDir+"/values-azure-asl.yaml")
	require.Equal(t, "test", pod.Annotations["helm.sh/hook"])
	require.Equal(t, "clients", pod.Spec.NodeSelector["pool"])
	commands := loads(strings.Join(pod.Spec.Containers[0].Command, " "))
	require.Len(t, commands, 2)
	require.Contains(t, commands[1], "--threads 2 --clients 32 --ratio 0:1")
	text := notes(t, "--values", chartDir+"/values-azure-asl.yaml")
	require.Contains(t, text, "limited to 100M")
	require.Contains(t, text, "512 MiB")
}

// secured are values with TLS and passwords for clients.
var secured = []string{
	"--set",
	"tls.secretName=tls,tls.clientCA=true,auth.secretName=users,tests.tlsName=cache,loadgen.enabled=true," +
		"loadgen.generator=mcmwlab,tests.load.enabled=true",
}

func TestLoadsUseTheServicesTLSAndPassword(t *testing.T) {
	o := render(t, helms["v4"], secured...)
	pod := testLoad(t, secured...)
	command := loads(strings.Join(pod.Spec.Containers[0].Command, " "))[0]
	require.Contains(t, loads(notes(t, secured...))[0],
		"--tls --tls-ca=/etc/mcmw/tls/ca.crt --tls-name=cache --tls-cert=/etc/mcmw/tls/tls.crt "+
			"--tls-key=/etc/mcmw/tls/tls.key --auth-file=/etc/mcmw/auth/user")
	for _, spec := range []corev1.PodSpec{
		pod.Spec, named[*appsv1.StatefulSet](t, o, "mcmw-loadgen").Spec.Template.Spec,
		named[*corev1.Pod](t, o, "mcmw-test").Spec,
	} {
		var mounted []string
		for _, m := range spec.Containers[0].VolumeMounts {
			mounted = append(mounted, m.MountPath)
		}
		require.Subset(t, mounted, []string{"/etc/mcmw/tls", "/etc/mcmw/auth"})
	}
	memtier := loads(notes(t, "--set", "tls.secretName=tls,loadgen.enabled=true"))
	for _, command := range memtier {
		require.Contains(t, command, "--tls --cacert=/etc/mcmw/tls/ca.crt")
	}

	// The flags are those that the program has.
	out, err := exec.Command("go", "-C", "../../lab", "run", "./cmd/mcmwlab", "load", "--help").CombinedOutput()
	require.NoError(t, err, "%s", out)
	flags := regexp.MustCompile(`--[a-z-]+`).FindAllString(command, -1)
	require.Greater(t, len(flags), 10)
	for _, flag := range flags {
		require.Regexp(t, "(?m)^ +(-., )?"+flag+" ", string(out))
	}
}
