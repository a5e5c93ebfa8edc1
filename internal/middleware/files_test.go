package middleware

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// New connections to servers find free files while many clients connect. This also holds for a low limit, if
// connections to servers use at most a quarter of it.
func TestClientsAndRefusedClientsLeaveFilesForServers(t *testing.T) {
	for _, allowed := range []int{64, 256, 1024, 1 << 20, 1 << 30} {
		for _, servers := range []int{2, allowed / 16, allowed / 4} {
			clients, refused := shareFiles(allowed, servers)
			assert.LessOrEqual(t, clients+refused+servers, allowed-min(otherFiles, allowed*3/32),
				"%d files, %d of servers", allowed, servers)
			assert.GreaterOrEqual(t, clients, allowed/2)
			assert.Positive(t, refused)
		}
	}
}
