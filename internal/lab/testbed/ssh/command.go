package ssh

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"mcmw/internal/lab/experiment"
)

// shell is the script that starts the agent on a host. Its one argument is where to make the temporary directory.
// Every line that it writes begins with mark; it reads lines:
//
//	put SIZE NAME   followed by SIZE bytes: a program for the temporary directory; answered with "copied"
//	run 0 PATH      runs the agent of mcmwlab, and ends with it
const shell = `umask 077; ` +
	`d=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/mcmwlab.XXXXXXXX") || exit 1; ` +
	`trap "rm -rf \"$d\"" EXIT; trap "exit 1" HUP INT TERM; ` +
	`echo "` + mark + `$(uname -s) $(uname -m) $d"; ` +
	`while read -r verb size name; do case $verb in ` +
	`put) head -c "$size" >"$d/$name" && chmod 700 "$d/$name" && [ "$(wc -c <"$d/$name")" -eq "$size" ] || exit 1; echo "` + mark + `copied";; ` +
	`run) "$name" agent serve; exit;; ` +
	`esac; done`

// mark begins the lines of the shell, which start-up files of a login shell may write lines before.
const mark = "mcmwlab-shell: "

// command returns the ssh that runs the shell on a host.
func command(config string, h experiment.InventoryHost) *exec.Cmd {
	args := sshArgs(config, h)
	for _, option := range []string{
		"ConnectTimeout=15",
		// A connection of its own, which ends with this process, and notices within 20 s that the other side is gone.
		"ControlMaster=no", "ControlPath=none", "ServerAliveInterval=5", "ServerAliveCountMax=4",
		"ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no", "RemoteCommand=none", "RequestTTY=no", "LogLevel=ERROR",
	} {
		args = append(args, "-o", option)
	}
	// The login shell, whichever it is, only has to understand quotes.
	return exec.Command("ssh", append(args, "--", h.SSH, "exec sh -c "+quoted(shell)+" mcmwlab "+quoted(h.Directory))...)
}

// sshArgs are the arguments that lead to a host.
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

// quoted returns text as one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// sshFailed is the code of ssh that stands for a failure of its own.
const sshFailed = 255

// explain makes an error of how the ssh to a host ended, that says what to do.
func explain(config string, h experiment.InventoryHost, code int, stderr string) error {
	try := "ssh " + strings.Join(append(sshArgs(config, h), h.SSH, "true"), " ")
	said := cmp.Or(stderr, fmt.Sprintf("ssh ended with code %d and said nothing", code))
	has := func(texts ...string) bool {
		for _, text := range texts {
			if strings.Contains(stderr, text) {
				return true
			}
		}
		return false
	}
	switch {
	case code == sshFailed && has("Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"):
		return fmt.Errorf("its host key isn't the one in known_hosts, or isn't there: %s; compare its fingerprint and connect once by hand: ssh %s", said, h.SSH)
	case code == sshFailed && has("Permission denied", "Too many authentication failures"):
		return fmt.Errorf("it refuses the user or the key: %s; expected a key that needs no password, such as one that ssh-agent has; try: %s", said, try)
	case code == sshFailed && has("Could not resolve", "Connection refused", "timed out", "No route to host", "Network is unreachable"):
		return fmt.Errorf("it can't be reached: %s; try: %s", said, try)
	case code == sshFailed:
		return fmt.Errorf("the connection has ended: %s", said)
	case has("Permission denied", "cannot execute", "noexec"):
		return fmt.Errorf("what is copied there can't be run: %s; give another place by the key directory of the inventory", said)
	case has("not found", "No such file"):
		return fmt.Errorf("a program is missing there: %s; expected a shell with mktemp, head, wc and chmod, and programs where the inventory says", said)
	case code == 0:
		return errors.New("the connection was closed")
	default:
		return fmt.Errorf("mcmwlab there has ended with code %d: %s", code, said)
	}
}
