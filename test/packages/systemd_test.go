package packages

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// boot starts systemd in a container whose root is the machine's with a layer of its own above it, and lets it run
// testdata/service.sh. The layers are unmounted, and all processes end, with this shell's namespaces.
const boot = `
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs "$1"
mkdir "$1/above" "$1/swap" "$1/whole"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/above,workdir=$1/swap" "$1/whole" || exit 77
mkdir "$1/whole/mcmw-test"
cp "$2" "$1/whole/mcmw-test/mcmw.deb"
cp testdata/service.sh "$1/whole/mcmw-test/run"
rm -rf "$1"/whole/etc/systemd/system/*.wants # none of the services of the machine
: >"$1/whole/etc/machine-id"
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n[Service]\nType=oneshot\nTimeoutStartSec=90\nStandardOutput=file:/mcmw-test/output\nStandardError=inherit\nExecStart=/bin/bash -c "bash /mcmw-test/run && touch /mcmw-test/passed; systemctl --force exit"\nFailureAction=exit-force\n' \
	>"$1/whole/etc/systemd/system/run.service"
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --directory="$1/whole" --machine="mcmw-$$" --boot --register=no --keep-unit --private-network --console=pipe systemd.unit=run.service || true
cat "$1/whole/mcmw-test/output"
test -e "$1/whole/mcmw-test/passed"`

func TestTheServiceIsStartedReloadedUpgradedAndStoppedBySystemd(t *testing.T) {
	file := packageFile(t, "deb")
	switch _, err := exec.LookPath("systemd-nspawn"); {
	case os.Getuid() != 0:
		t.Skip("only root can start systemd in a container")
	case err != nil:
		t.Skip("it needs systemd-nspawn; `.ci/deps packages` installs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
		"--mount-proc", "sh", "-eu", "-c", boot, "sh", t.TempDir(), file)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == 77 {
		t.Skipf("this machine mounts no layer over its root: %s", out)
	}
	require.NoError(t, err, "%s", out)
}
