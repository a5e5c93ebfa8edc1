package packages

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// packageFile returns the path of the package in the given format for this machine.
func packageFile(t *testing.T, format string) string {
	t.Helper()
	dir := os.Getenv("MCMW_PACKAGES")
	if dir == "" {
		t.Skip("it needs built packages: .ci/test packages builds them, and names their directory in MCMW_PACKAGES")
	}
	arch := runtime.GOARCH
	if format == "rpm" {
		arch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	}
	found, err := filepath.Glob(filepath.Join(dir, "*"+arch+"."+format))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// command runs a command and returns its output.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, args, out)
	return string(out)
}

// files returns the paths of all files under root, without the manager's own.
func files(t *testing.T, root string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasPrefix(path, filepath.Join(root, "var/lib")) {
			paths = append(paths, strings.TrimPrefix(path, root))
		}
		return err
	}))
	return paths
}

// works checks what a package has installed under root.
func works(t *testing.T, root string) {
	t.Helper()
	program := filepath.Join(root, "usr/bin/mcmw")
	server := mctest.StartMemcached(t)
	text, err := os.ReadFile(filepath.Join(root, "etc/mcmw/mcmw.yaml"))
	require.NoError(t, err)
	require.Equal(t, "OK\n", command(t, program, "config", "check", "--config",
		filepath.Join(root, "etc/mcmw/mcmw.yaml")))
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	own := strings.NewReplacer("127.0.0.1:11211", server.Addr(), ":11311", ":0", ":9150", ":0").Replace(string(text))
	require.NoError(t, os.WriteFile(file, []byte(own), 0o600))
	var log mctest.Output
	cmd := exec.Command(program, "serve", "--config", file, "--log-format", "json")
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	defer func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.NoError(t, cmd.Wait())
	}()
	var addr string
	require.Eventually(t, func() bool {
		_, rest, ready := strings.Cut(log.String(), `"msg":"ready","listen":["`)
		addr, _, _ = strings.Cut(rest, `"`)
		return ready
	}, mctest.Patience, mctest.Tick)
	_, _, err = net.SplitHostPort(addr)
	require.NoError(t, err)
	c := mctest.MustDial(t, addr)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nv\r\n"))
	require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", c.MustDo(t, "get k\r\n"))

	pages, err := filepath.Glob(filepath.Join(root, "usr/share/man/man1/mcmw*.1.gz"))
	require.NoError(t, err)
	require.Contains(t, pages, filepath.Join(root, "usr/share/man/man1/mcmw-serve.1.gz"))
	page := command(t, "sh", "-c",
		"gzip -dc "+filepath.Join(root, "usr/share/man/man1/mcmw-serve.1.gz")+" | groff -man -Tascii -P-cbou")
	require.Contains(t, page, "--stall-after")

	completion := filepath.Join(root, "usr/share/bash-completion/completions/mcmw")
	require.Contains(t, command(t, "bash", "-c", "source "+completion+" && complete -p mcmw"), "__start_mcmw")
}

// unit checks the service under root, whose programs exist.
func unit(t *testing.T, root string) {
	t.Helper()
	const path = "usr/lib/systemd/system/mcmw.service"
	kill := filepath.Join(root, "bin/kill")
	require.NoError(t, os.MkdirAll(filepath.Dir(kill), 0o755))
	require.NoError(t, os.WriteFile(kill, []byte("#!/bin/sh\n"), 0o755))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "--root="+root,
		"mcmw.service").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "mcmw.service:")
	// From 0, nothing is exposed, to 100. Without any settings a service has 96.
	command(t, "systemd-analyze", "security", "--offline=true", "--threshold=15", filepath.Join(root, path))
	require.NoError(t, os.RemoveAll(filepath.Join(root, "bin")))
}

func TestTheDebianPackageIsInstalledUpgradedRemovedAndPurged(t *testing.T) {
	file, root := packageFile(t, "deb"), t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers", "alternatives"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
	dpkg := func(args ...string) string {
		return command(t, "dpkg", append([]string{
			"--root=" + root, "--log=" + os.DevNull,
			"--force-not-root,script-chrootless,architecture,confold",
		}, args...)...)
	}
	dpkg("--install", file)
	require.Contains(t, dpkg("--status", "mcmw"), "Status: install ok installed")
	require.Empty(t, dpkg("--verify", "mcmw"))
	works(t, root)
	unit(t, root)

	config := filepath.Join(root, "etc/mcmw/mcmw.yaml")
	require.NoError(t, os.WriteFile(config, []byte("servers: [mine]\n"), 0o644))
	dpkg("--install", file)
	kept, err := os.ReadFile(config)
	require.NoError(t, err)
	require.Equal(t, "servers: [mine]\n", string(kept), "an upgrade keeps a changed configuration")
	dpkg("--remove", "mcmw")
	require.Equal(t, []string{"/etc/mcmw/mcmw.yaml"}, files(t, root))
	dpkg("--purge", "mcmw")
	require.Empty(t, files(t, root))
}

func TestTheRpmPackageIsInstalledUpgradedAndRemoved(t *testing.T) {
	file, root := packageFile(t, "rpm"), t.TempDir()
	rpm := func(args ...string) string {
		return command(t, "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm"}, args...)...)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/rpm"), 0o755))
	rpm("--initdb")
	rpm("--install", "--nodeps", "--noscripts", "--ignoreos", file)
	require.Contains(t, rpm("-qi", "mcmw"), "License     : Apache-2.0")
	rpm("--verify", "--nodeps", "mcmw")
	works(t, root)
	unit(t, root)
	config := filepath.Join(root, "etc/mcmw/mcmw.yaml")
	require.NoError(t, os.WriteFile(config, []byte("servers: [mine]\n"), 0o644))
	rpm("--upgrade", "--force", "--nodeps", "--noscripts", "--ignoreos", file)
	kept, err := os.ReadFile(config)
	require.NoError(t, err)
	require.Equal(t, "servers: [mine]\n", string(kept), "an upgrade keeps a changed configuration")
	rpm("--erase", "--noscripts", "mcmw")
	require.Subset(t, []string{"/etc/mcmw/mcmw.yaml.rpmsave", "/etc/mcmw/mcmw.yaml.rpmnew"}, files(t, root))
}

// The scripts of the packages, with a systemctl that only notes how it is called.
func TestTheServiceIsRestartedByAnUpgradeAndStoppedByARemoval(t *testing.T) {
	for _, call := range []struct{ script, args, want string }{
		{"postinstall", "configure", "daemon-reload\n"},
		{"postinstall", "1", "daemon-reload\n"},
		{"postinstall", "configure 0.1.0", "daemon-reload\ntry-restart mcmw.service\n"},
		{"postinstall", "2", "daemon-reload\ntry-restart mcmw.service\n"},
		{"preremove", "remove", "disable --now mcmw.service\n"},
		{"preremove", "0", "disable --now mcmw.service\n"},
		{"preremove", "upgrade 0.2.0", ""},
		{"preremove", "1", ""},
		{"postremove", "remove", "daemon-reload\n"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "systemctl"),
			[]byte("#!/bin/sh\necho \"$@\" >>"+dir+"/calls\n"), 0o755))
		text, err := os.ReadFile("../../deploy/package/" + call.script)
		require.NoError(t, err)
		own := bytes.ReplaceAll(text, []byte("/run/systemd/system"), []byte(dir))
		require.NotEqual(t, string(text), string(own), "it does nothing where systemd doesn't run")
		cmd := exec.Command("sh", append([]string{"-c", string(own), call.script}, strings.Fields(call.args)...)...)
		cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		require.Equal(t, call.want, string(calls), "%s %s", call.script, call.args)
	}
}
