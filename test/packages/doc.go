// Package packages installs and removes the packages that `make packages` builds, each under a directory of its own,
// and the service under a systemd of its own, in a container whose root is this machine's. The round packages of
// .ci/test sets MCMW_PACKAGES; without it there is nothing to install.
package packages
