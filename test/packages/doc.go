// Package packages installs and removes the packages that `make packages` builds, each under a directory of its own. The round packages of
// .ci/test sets MCMW_PACKAGES; without it there is nothing to install.
package packages
