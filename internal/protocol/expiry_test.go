package protocol

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAnItemLivesNoLongerThanTheCap(t *testing.T) {
	const now = 1_800_000_000
	for line, want := range map[string]string{
		"set k 5 0 1":                         "set k 5 60 1",
		"set k 5 59 1":                        "set k 5 59 1",
		"set k 5 61 1":                        "set k 5 60 1",
		"set k 5 -1 1":                        "set k 5 -1 1",
		"set k 5 -70 1":                       "set k 5 -1 1",
		"set k 5 2592000 1":                   "set k 5 60 1",
		fmt.Sprintf("set k 5 %d 1", now+10):   "set k 5 10 1",
		fmt.Sprintf("set k 5 %d 1", now+61):   "set k 5 60 1",
		fmt.Sprintf("set k 5 %d 1", now):      "set k 5 -1 1",
		fmt.Sprintf("set k 5 %d 1", now-3600): "set k 5 -1 1",
		"add k 0 0 1":                         "add k 0 60 1",
		"replace k 0 0 1":                     "replace k 0 60 1",
		"append k 0 0 1":                      "append k 0 60 1",
		"prepend k 0 0 1":                     "prepend k 0 60 1",
		"cas k 0 0 1 77":                      "cas k 0 60 1 77",
		"touch k 0":                           "touch k 60",
		"gat 0 k l":                           "gat 60 k l",
		"gats 100 k":                          "gats 60 k",
		"incr k 1":                            "incr k 1",
		"delete k":                            "delete k",
		"get T0 N0":                           "get T0 N0",
		"ms k 1":                              "ms k 1 T60",
		"ms T0 1 F5 T0 E9":                    "ms T0 1 F5 T60 E9",
		"ms k 1 T30 c":                        "ms k 1 T30 c",
		"ms k 1 MA N0":                        "ms k 1 MA N60 T60",
		"ms k 1 T-1":                          "ms k 1 T-1",
		"mg k v":                              "mg k v",
		"mg k v T0 N700":                      "mg k v T60 N60",
		"ma k N0 J5 v":                        "ma k N60 J5 v",
		"md k I T0":                           "md k I T60",
		"md k":                                "md k",
	} {
		op := opOf(t, line)
		op.Cap(60, now)
		assert.Equal(t, want+CRLF, string(op.Append(nil)), "%q", line)
	}
}
