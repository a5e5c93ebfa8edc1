//go:build !linux

package main

import (
	"testing"

	"mcmw/test/cluster/node"
)

func TestAClusterNeedsLinux(t *testing.T) { t.Skip(node.Possible()) }
