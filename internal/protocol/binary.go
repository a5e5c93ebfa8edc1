package protocol

import "encoding/binary"

// Requests of the binary protocol are refused; these constants are what that needs.
const (
	// BinaryRequest is the first byte of every binary request, and of no text command.
	BinaryRequest = 0x80
	// BinaryHeader is the length of a binary message's header in bytes.
	BinaryHeader = 24

	binaryGetQ, binaryGetK, binaryGetKQ = 0x09, 0x0c, 0x0d

	binaryReply   = 0x81
	binaryUnknown = 0x0081 // the status "Unknown command"
	binaryText    = "Unknown command"
)

// RefuseBinary returns the reply "Unknown command", in the binary protocol, to the request with this header; "" if its
// client must be closed without a reply. libmemcached (PHP's extension, pylibmc) takes every status for a miss in the
// gets that it sends, but not the end of the connection. Other clients send these gets, if at all, for several keys.
func RefuseBinary(header []byte) string {
	switch header[1] {
	case binaryGetQ, binaryGetK, binaryGetKQ:
		return ""
	}
	reply := make([]byte, BinaryHeader, BinaryHeader+len(binaryText))
	reply[0], reply[1] = binaryReply, header[1]
	binary.BigEndian.PutUint16(reply[6:], binaryUnknown)
	binary.BigEndian.PutUint32(reply[8:], uint32(len(binaryText)))
	copy(reply[12:16], header[12:16]) // the opaque, by which the client matches the reply to its request
	return string(append(reply, binaryText...))
}
