package protocol

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// A tombstone says that a key was deleted a moment ago. It is an item of mcmw's own, under a name that no classic
// command can have and that is not too long for any key: "mcmw tombstone " and a hash of the key. Its value is the key,
// by which mcmw places it: on the servers that hold the key.

const (
	tombstone = "mcmw tombstone "
	// tombstoneText is how tombstone begins in base64.
	tombstoneText = "bWNtdyB0b21ic3RvbmUg"
)

// AppendTombstone appends the name of key's tombstone, in base64.
func AppendTombstone(dst, key []byte) []byte {
	var name [len(tombstone) + sha256.Size]byte
	sum := sha256.Sum256(key)
	hex.Encode(name[copy(name[:], tombstone):], sum[:sha256.Size/2])
	return keyEncoding.AppendEncode(dst, name[:])
}

// Bury returns the command that leaves a tombstone of key for that many seconds. The flag P says that it is a delivery.
func Bury(key string, seconds int32) Op {
	op := KeyText{AppendTombstone(nil, []byte(key)), true}.Meta('s', "TP")
	op.Expiry, op.Data = seconds, []byte(key+CRLF)
	return op
}

// Buried returns the key whose tombstone op leaves; nil: it leaves none.
func (op *Op) Buried() []byte {
	if op.Verb != 's' || !bytes.HasPrefix(op.Keys, []byte(tombstoneText)) {
		return nil
	}
	var room [DefaultMaxKey]byte
	key := bytes.TrimSuffix(op.Data, []byte(CRLF))
	if len(key) == 0 || len(key) > DefaultMaxKey || !bytes.Equal(AppendTombstone(room[:0], key), op.Keys) {
		return nil
	}
	return key
}
