package protocol

import "encoding/binary"

// The binary protocol is not spoken; a client that speaks it is told so.
const (
	// BinaryRequest is the first byte of every binary request, and of no text command.
	BinaryRequest = 0x80
	// BinaryHeader is the length of a binary message's header, bytes.
	BinaryHeader = 24

	binaryReply   = 0x81
	binaryUnknown = 0x0081 // the status "Unknown command"
	binaryText    = "Unknown command"
)

// RefuseBinary returns the answer to the binary request with header, in its protocol: its command is unknown.
func RefuseBinary(header []byte) string {
	reply := make([]byte, BinaryHeader, BinaryHeader+len(binaryText))
	reply[0], reply[1] = binaryReply, header[1]
	binary.BigEndian.PutUint16(reply[6:], binaryUnknown)
	binary.BigEndian.PutUint32(reply[8:], uint32(len(binaryText)))
	copy(reply[12:16], header[12:16]) // by which the client knows what is answered
	return string(append(reply, binaryText...))
}
