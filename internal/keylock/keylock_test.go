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
	assert.False(t, taken, "it must be unlocked only once")
	held, _ = l.Try(s, 2)
	assert.False(t, held)
	assert.True(t, l.Held(s, 2))
	assert.False(t, l.Held(s, 1))
	l.Unlock(s)
	assert.False(t, l.Held(s, 2))
}

func TestAWaiterContinuesWhenTheStripeIsUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.Try(7, 1)
		through := false
		go func() {
			l.Await(7, 2, true)
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

func TestWorkersThatLockManyStripesExcludeEachOtherWithoutDeadlock(t *testing.T) {
	l := New()
	var counters [8]int // counters[i] is guarded by stripe i
	var wg sync.WaitGroup
	for owner := int32(1); owner <= 8; owner++ {
		wg.Go(func() {
			for round := range 500 {
				stripes, _ := l.LockAll([]uint32{
					uint32(round % 8), uint32((round * 3) % 8),
					uint32((round + int(owner)) % 8),
				}, owner, true)
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

func TestACallerThatIsNotPatientDoesNotWaitForAParkedHolder(t *testing.T) {
	l := New()
	l.Try(7, 1)
	waited := make(chan int)
	go func() { waited <- l.Await(7, 2, false) }()
	patient := make(chan int)
	go func() { patient <- l.Await(7, 3, true) }()
	l.Park(1, 5)
	assert.Equal(t, 5, <-waited)

	taken, server := l.LockAll([]uint32{9, 7, 3}, 2, false)
	assert.Empty(t, taken)
	assert.Equal(t, 5, server)
	held, _ := l.Try(3, 4)
	assert.True(t, held, "the stripes locked before it are unlocked")

	l.Unlock(7)
	assert.Equal(t, Free, <-patient)
	l.Unpark(1)
	l.Try(7, 1)
	go func() { waited <- l.Await(7, 2, false) }()
	l.Unlock(7)
	assert.Equal(t, Free, <-waited)
}
