package netstage

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/budget"
	"mcmw/internal/wire"
)

func TestAReplyWaitsOnlyWhileOthersUseAllMemoryAndItsSocketHasNoRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	accepted, err := l.Accept()
	require.NoError(t, err)
	const room = 64 << 10
	require.NoError(t, accepted.(*net.TCPConn).SetWriteBuffer(room)) // Linux makes it twice as large
	sock, err := wire.NewSocket(accepted)
	require.NoError(t, err)
	defer sock.Close()
	c := &conn{stage: &Stage{output: budget.New(1), cut: make(chan struct{})}, sock: sock}

	require.False(t, c.Crowded(room+1), "there is memory")
	c.stage.output.Force(2)
	require.False(t, c.Crowded(room))
	require.True(t, c.Crowded(room+1), "although the client has read everything")
	c.awaitRoom(room)
	c.stage.output.Give(1)
	c.awaitRoom(room + 1)
}
