package sweep_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/sweep"
)

// Replicas store an item at different moments, so its remaining time can differ by a second.
func TestAnItemThatExpiresAtAboutTheSameTimeOnAllServersIsCopied(t *testing.T) {
	for other, want := range map[string]sweep.TransferOutcome{
		"101": sweep.TransferCopied, "99": sweep.TransferCopied,
		"200": sweep.TransferMoving, "-1": sweep.TransferMoving,
	} {
		move := sweep.Transfer{
			Key: protocol.KeyText{Text: []byte("k")}, Source: 0, Others: []int{1}, To: []int{2},
			Hold: 10,
		}
		held := false // by the target
		for more := true; more; more = move.Next() {
			for server, remains := range []string{"100", other, ""} {
				op, ok := move.Ask(server)
				if !ok {
					continue
				}
				reply := "EN\r\n"
				switch {
				case op.Verb == 'g' && server < 2:
					reply = "VA 1 c7 t" + remains + " f0\r\nv\r\n"
				case op.Verb == 's':
					held, reply = true, "HD\r\n"
				case op.Verb == 'd':
					held, reply = false, "HD\r\n"
				}
				move.Answer(server, []byte(reply))
			}
		}
		require.Equal(t, want, move.Outcome(), other)
		require.Equal(t, want == sweep.TransferCopied, held)
	}
}
