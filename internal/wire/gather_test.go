package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func joined(g *Gather) string { return string(bytes.Join(g.Pieces(), nil)) }

func TestPiecesComeOutInTheOrderTheyWentIn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	source := make([]byte, 1<<16)
	for i := range source {
		source[i] = byte(rnd.Uint32())
	}
	var g Gather
	for range 200 {
		var want []byte
		for range rnd.IntN(30) {
			from := rnd.IntN(len(source) - 2000)
			p := source[from : from+rnd.IntN(2000)]
			if rnd.IntN(4) == 0 {
				g.AddString(string(p[:len(p)/10]))
				p = p[:len(p)/10]
			} else {
				g.Add(p)
			}
			want = append(want, p...)
		}
		assert.Equal(t, string(want), joined(&g))
		assert.Equal(t, len(want), g.Len())
		for _, skip := range []int{0, len(want) / 3, len(want)} {
			assert.Equal(t, string(want[skip:]), string(g.AppendFrom(nil, skip)))
		}
		g.Reset()
		assert.Zero(t, g.Len())
		assert.Empty(t, g.Pieces())
	}
}

func TestAdjacentPiecesAreMerged(t *testing.T) {
	source := bytes.Repeat([]byte("x"), 4096)
	var g Gather
	g.Add(source[:1000])
	g.Add(source[1000:1003])
	g.Add(source[1003:])
	assert.Len(t, g.Pieces(), 1)
	g.AddString("a")
	g.AddString("b")
	assert.Len(t, g.Pieces(), 2)
}

func TestALargePieceIsNotCopied(t *testing.T) {
	source := bytes.Repeat([]byte("x"), copyBelow+1)
	var g Gather
	g.Add(source)
	assert.Same(t, &source[0], &g.Pieces()[0][0])
}

func TestCollectingAllocatesNothingOnceWarm(t *testing.T) {
	var g Gather
	large := make([]byte, 5000)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for range 20 {
			g.Add(large)
			g.AddString("some text")
		}
		g.Reset()
	}))
}
