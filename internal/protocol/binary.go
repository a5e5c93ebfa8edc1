package protocol

import "encoding/binary"

// Requests of the binary protocol are refused; these constants are what that needs.
const (
	// BinaryRequest is the first byte of every binary request, and of no text command.
	BinaryRequest = 0x80
	// BinaryHeader is the length of a binary message's header in bytes.
	BinaryHeader = 24

	binaryReply   = 0x81
	binaryUnknown = 0x0081 // the status "Unknown command"
	binaryText    = "Unknown command"
)

// RefuseBinary returns the reply "Unknown command", in the binary protocol, to the request with this header.
func RefuseBinary(header []byte) string {
	reply := make([]byte, BinaryHeader, BinaryHeader+len(binaryText))
	reply[0], reply[1] = binaryReply, header[1]
	binary.BigEndian.PutUint16(reply[6:], binaryUnknown)
	binary.BigEndian.PutUint32(reply[8:], uint32(len(binaryText)))
	copy(reply[12:16], header[12:16]) // the opaque, by which the client matches the reply to its request
	return string(append(reply, binaryText...))
}
