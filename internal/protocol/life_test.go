package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheMinimumLifeOfAnItem(t *testing.T) {
	const second = 1_000_000_000 // ns
	for reply, want := range map[string]int64{
		"ME k exp=-1 la=0 cas=99 fetch=no cls=1 size=63\r\n": forever,
		"ME k exp=1 la=0\r\n":                                0,
		"ME k exp=2\r\n":                                     second,
		"ME exp=-1 exp=3\r\n":                                2 * second,
		"ME exp=-1 la=3\r\n":                                 0,
		"ME k exp=-2\r\n":                                    0,
		"ME k exp=\r\n":                                      0,
		"EN\r\n":                                             0,
		"":                                                   0,
	} {
		it, _ := DecodeItem([]byte(reply))
		assert.Equal(t, want, it.Life(), reply)
	}
	for exptime, want := range map[int32]int64{
		0: forever, 1: 0, 2: second, 2592000: 2591999 * second, 2592001: 0,
		-1: 0,
	} {
		assert.Equal(t, want, LifeStored(exptime), exptime)
	}
}
