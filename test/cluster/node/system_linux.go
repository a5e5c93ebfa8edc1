package node

// possibleSystem returns the reason why a cluster can't run on this operating system.
func possibleSystem() error { return nil }
