package keylock

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

func TestAStripeHasOneHolder(t *testing.T) {
	l := New()
	s := l.Stripe([]byte("key"))
	held, taken := l.Try(s, 1)
	assert.True(t, held && taken)
	held, taken = l.Try(s, 1)
	assert.True(t, held)
	assert.False(t, taken, "it is given back once")
	held, _ = l.Try(s, 2)
	assert.False(t, held)
	assert.True(t, l.Held(s, 2))
	assert.False(t, l.Held(s, 1))
	l.Unlock(s)
	assert.False(t, l.Held(s, 2))
}

func TestAWaiterGoesOnWhenTheStripeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.Try(7, 1)
		through := false
		go func() {
			l.Await(7, 2)
			through = true
		}()
		synctest.Wait()
		assert.False(t, through)
		l.Unlock(7)
		synctest.Wait()
		assert.True(t, through)
		assert.Zero(t, l.waiting.Load())
	})
}

func TestWorkersThatTakeManyStripesExcludeEachOtherAndEnd(t *testing.T) {
	l := New()
	var counters [8]int // counters[i] is guarded by stripe i
	var wg sync.WaitGroup
	for owner := int32(1); owner <= 8; owner++ {
		wg.Go(func() {
			for round := range 500 {
				stripes := l.LockAll([]uint32{uint32(round % 8), uint32((round * 3) % 8), uint32((round + int(owner)) % 8)}, owner)
				for _, s := range stripes {
					counters[s]++
				}
				for _, s := range stripes {
					l.Unlock(s)
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range counters {
		total += n
	}
	assert.Greater(t, total, 8*500)
	assert.Zero(t, l.waiting.Load())
}

func TestLockingAllocatesNothingWhileNobodyWaits(t *testing.T) {
	l := New()
	key := []byte("some-key")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		s := l.Stripe(key)
		l.Try(s, 1)
		l.Unlock(s)
	}))
}

func BenchmarkTryAndUnlock(b *testing.B) {
	l := New()
	key := []byte("memtier-1234567")
	for b.Loop() {
		s := l.Stripe(key)
		l.Try(s, 1)
		l.Unlock(s)
	}
}
