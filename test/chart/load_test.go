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

// notes returns the notes of an installation of the chart in directory dir.
func notes(t *testing.T, dir string, args ...string) string {
	t.Helper()
	// Helm 3 writes notes only with a cluster.
	stdout, stderr, err := helms["v4"].run(t,
		append([]string{"install", release, dir, "--namespace", namespace, "--dry-run=client"}, args...)...)
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
	memtier := loads(notes(t, loadDir))
	require.Len(t, memtier, 2)
	require.Contains(t, memtier[0], "--ratio 1:0 --key-pattern P:P --requests allkeys")
	keys := regexp.MustCompile(`--key-minimum \d+ --key-maximum \d+ --data-size \d+`)
	require.NotEmpty(t, keys.FindString(memtier[0]))
	require.Equal(t, keys.FindString(memtier[0]), keys.FindString(memtier[1]))
	lab := loads(notes(t, loadDir, "--set", "generator=mcmwlab"))
	require.Len(t, lab, 1)
	require.Contains(t, lab[0], "--populate")
}

func TestTheNotesOfTheLoadNameItsPods(t *testing.T) {
	for set, args := range sets(t, loadDir) {
		t.Run(set, func(t *testing.T) {
			pods := regexp.MustCompile(` exec (\S+)-0 `).FindAllStringSubmatch(notes(t, loadDir, args...), -1)
			require.NotEmpty(t, pods)
			o := renderDir(t, helms["v4"], loadDir, args...)
			for _, pod := range pods {
				named[*appsv1.StatefulSet](t, o, pod[1])
			}
		})
	}
}

// testLoad returns the pod that runs a load during helm test.
func testLoad(t *testing.T, o *objects) *corev1.Pod {
	t.Helper()
	return named[*corev1.Pod](t, o, "mcmw-mcmw-load-test")
}

func TestHelmTestRunsALoadOnTheAzurePools(t *testing.T) {
	pod := testLoad(t, renderDir(t, helms["v4"], loadDir, "--values", loadDir+"/values-azure-asl.yaml"))
	require.Equal(t, "test", pod.Annotations["helm.sh/hook"])
	require.Equal(t, "clients", pod.Spec.NodeSelector["pool"])
	commands := loads(strings.Join(pod.Spec.Containers[0].Command, " "))
	require.Len(t, commands, 2)
	require.Contains(t, commands[1], "--threads 2 --clients 32 --ratio 0:1")
	text := notes(t, chartDir, "--values", loadDir+"/mcmw-azure-asl.yaml")
	require.Contains(t, text, "limited to 100M")
	require.Contains(t, text, "512 MiB")
}

func TestClientsUseTheServicesTLSAndPassword(t *testing.T) {
	const flags = "--tls --tls-ca=/etc/mcmw/tls/ca.crt --tls-name=cache --tls-cert=/etc/mcmw/tls/tls.crt " +
		"--tls-key=/etc/mcmw/tls/tls.key --auth-file=/etc/mcmw/auth/user"
	const load = "tls.secretName=tls,tls.clientCertificate=true,tls.name=cache,auth.secretName=users,generator=mcmwlab"
	o := renderDir(t, helms["v4"], loadDir, "--set", load)
	pod := testLoad(t, o)
	command := loads(strings.Join(pod.Spec.Containers[0].Command, " "))[0]
	require.Contains(t, loads(notes(t, loadDir, "--set", load))[0], flags)
	ping := named[*corev1.Pod](t, render(t, helms["v4"], "--set", "tls.secretName=tls,tls.clientCA=true,"+
		"auth.secretName=users,tests.tlsName=cache,tests.tlsSecretName=client,tests.authKey=one"), "mcmw-test").Spec
	require.Contains(t, strings.Join(ping.Containers[0].Args, " "), flags)
	require.Equal(t, "client", ping.Volumes[0].Secret.SecretName)
	require.Equal(t, []corev1.KeyToPath{{Key: "one", Path: "user"}}, ping.Volumes[1].Secret.Items)
	for _, spec := range []corev1.PodSpec{
		pod.Spec, named[*appsv1.StatefulSet](t, o, "mcmw-mcmw-load").Spec.Template.Spec, ping,
	} {
		var mounted []string
		for _, m := range spec.Containers[0].VolumeMounts {
			mounted = append(mounted, m.MountPath)
		}
		require.Subset(t, mounted, []string{"/etc/mcmw/tls", "/etc/mcmw/auth"})
	}
	memtier := loads(notes(t, loadDir, "--set", "tls.secretName=tls,tls.clientCertificate=true,tls.name=cache"))
	for _, command := range memtier {
		require.Contains(t, command, "--tls --cacert=/etc/mcmw/tls/ca.crt --sni=cache --cert=/etc/mcmw/tls/tls.crt "+
			"--key=/etc/mcmw/tls/tls.key ")
	}

	// The flags are those that the program has.
	out, err := exec.Command("go", "-C", "../../lab", "run", "./cmd/mcmwlab", "load", "--help").CombinedOutput()
	require.NoError(t, err, "%s", out)
	has := regexp.MustCompile(`--[a-z-]+`).FindAllString(command, -1)
	require.Greater(t, len(has), 10)
	for _, flag := range has {
		require.Regexp(t, "(?m)^ +(-., )?"+flag+" ", string(out))
	}
}
