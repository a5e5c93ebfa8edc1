package ssh

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"mcmw/lab/experiment"
)

// shell is the script that starts the agent on a host. Its one argument is the parent of the temporary directory. Every
// line that it writes begins with mark. It reads these lines:
//
//	put SIZE NAME   followed by SIZE bytes: a program for the temporary directory; the answer is "copied"
//	run 0 PATH      runs the agent of mcmwlab, and ends with it
const shell = `umask 077; ` +
	`d=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/mcmwlab.XXXXXXXX") || exit 1; ` +
	`trap "rm -rf \"$d\"" EXIT; trap "exit 1" HUP INT TERM; ` +
	`echo "` + mark + `$(uname -s) $(uname -m) $d"; ` +
	`while read -r verb size name; do case $verb in ` +
	`put) head -c "$size" >"$d/$name" && chmod 700 "$d/$name" && [ "$(wc -c <"$d/$name")" -eq "$size" ] || exit 1; echo "` + mark + `copied";; ` +
	`run) "$name" agent serve; exit;; ` +
	`esac; done`

// mark begins the lines of the script. Start-up files of a login shell can write other lines before them.
const mark = "mcmwlab-shell: "

// command returns the ssh command that runs the script on a host.
func command(config string, h experiment.InventoryHost) *exec.Cmd {
	args := sshArgs(config, h)
	for _, option := range []string{
		"ConnectTimeout=15",
		// The connection is not shared, so it ends with this process. It detects a lost host within 20 s.
		"ControlMaster=no", "ControlPath=none", "ServerAliveInterval=5", "ServerAliveCountMax=4",
		"ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no", "RemoteCommand=none",
		"RequestTTY=no", "LogLevel=ERROR",
	} {
		args = append(args, "-o", option)
	}
	// The login shell, whichever it is, only needs to understand quotes.
	return exec.Command("ssh", append(args, "--", h.SSH,
		"exec sh -c "+quoted(shell)+" mcmwlab "+quoted(h.Directory))...)
}

// sshArgs returns the arguments with which ssh reaches a host.
func sshArgs(config string, h experiment.InventoryHost) (args []string) {
	if config != "" {
		args = append(args, "-F", config)
	}
	// There is no terminal to ask for a password at.
	args = append(args, "-o", "BatchMode=yes")
	if h.User != "" {
		args = append(args, "-l", h.User)
	}
	if h.Port != 0 {
		args = append(args, "-p", strconv.Itoa(h.Port))
	}
	if h.Identity != "" {
		args = append(args, "-i", h.Identity)
	}
	return args
}

// quoted returns text as one word for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// sshFailed is the exit code of ssh for a failure of ssh itself.
const sshFailed = 255

// explain returns an error that says why the ssh to a host ended, and what to do.
func explain(config string, h experiment.InventoryHost, code int, stderr string) error {
	try := "ssh " + strings.Join(append(sshArgs(config, h), h.SSH, "true"), " ")
	message := cmp.Or(stderr, fmt.Sprintf("ssh ended with code %d and no message", code))
	has := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(stderr, text) })
	}
	switch {
	case code == sshFailed && has("Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"):
		return fmt.Errorf("its host key is not the one in known_hosts, or not in there: %s; compare its fingerprint "+
			"and connect once by hand: ssh %s", message, h.SSH)
	case code == sshFailed && has("Permission denied", "Too many authentication failures"):
		return fmt.Errorf("it refuses the user or the key: %s; expected a key that needs no password, such as one "+
			"held by ssh-agent; try: %s", message, try)
	case code == sshFailed && has("Could not resolve", "Connection refused", "timed out", "No route to host",
		"Network is unreachable"):
		return fmt.Errorf("it cannot be reached: %s; try: %s", message, try)
	case code == sshFailed:
		return fmt.Errorf("the connection has ended: %s", message)
	case has("Permission denied", "cannot execute", "noexec"):
		return fmt.Errorf("the programs copied there cannot be run: %s; set another directory with the key directory "+
			"of the inventory", message)
	case has("not found", "No such file"):
		return fmt.Errorf("a program is missing there: %s; expected a shell with mktemp, head, wc and chmod, and "+
			"programs at the paths in the inventory", message)
	case code == 0:
		return errors.New("the connection was closed")
	default:
		return fmt.Errorf("mcmwlab on it has ended with code %d: %s", code, message)
	}
}
