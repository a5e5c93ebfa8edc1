package budget_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/budget"
)

func TestNoMoreThanTheBudgetIsTaken(t *testing.T) {
	b := budget.New(10)
	require.True(t, b.TryTake(6))
	require.False(t, b.TryTake(5))
	require.True(t, b.TryTake(4))
	b.Give(6)
	require.EqualValues(t, 4, b.Used())
	require.True(t, b.TryTake(6))
}

func TestAnAmountLargerThanTheBudgetIsTakenAlone(t *testing.T) {
	b := budget.New(10)
	require.True(t, b.TryTake(50))
	require.False(t, b.TryTake(1))
	b.Give(50)
	require.True(t, b.TryTake(1))
	require.False(t, b.TryTake(50))
}

func TestWaitersAreServedInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(10)
		require.True(t, b.TryTake(10))
		order := make(chan int64, 3)
		for _, n := range []int64{8, 1, 2} {
			go func() {
				require.True(t, b.Take(n, time.Hour, nil))
				order <- n
			}()
			synctest.Wait()
		}
		b.Give(5)
		synctest.Wait()
		require.Empty(t, order, "the first one waits for more than is left, and the others wait for the first")
		require.False(t, b.TryTake(1))
		b.Give(5)
		synctest.Wait()
		require.Len(t, order, 2)
		require.EqualValues(t, 9, b.Used())
		b.Give(8)
		synctest.Wait()
		require.Len(t, order, 3)
	})
}

func TestHoldersOfPartsDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(10)
		require.True(t, b.TryTake(5))
		require.True(t, b.TryTake(5))
		grown := make(chan struct{}, 2)
		for range 2 {
			go func() {
				require.True(t, b.Grow(5, 11, time.Hour, nil))
				grown <- struct{}{}
			}()
		}
		go func() { require.True(t, b.Take(1, time.Hour, nil)) }()
		synctest.Wait()
		require.Len(t, grown, 1, "one at a time may exceed the budget")
		require.True(t, b.Wanted())
		b.Give(5) // the smaller part of the first
		synctest.Wait()
		require.Len(t, grown, 1)
		b.Give(11)
		synctest.Wait()
		require.Len(t, grown, 2)
		b.Give(5)
		b.Give(11)
		synctest.Wait()
		require.False(t, b.Wanted())
		require.EqualValues(t, 1, b.Used())
	})
}

// The amount in use exceeds the budget at most by the amount that one of them takes.
func TestHoldersThatGrowInStepsDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, holders = 16, 16
		b := budget.New(limit)
		for range holders {
			require.True(t, b.TryTake(1))
		}
		done := make(chan struct{}, holders)
		for range holders {
			go func() {
				for part := int64(1); part < 16; part *= 4 {
					assert.True(t, b.Grow(part, 4*part, time.Hour, nil))
					assert.LessOrEqual(t, b.Used(), int64(limit+16+4), "one holds its previous and its next part")
					b.Give(part)
				}
				b.Give(16)
				done <- struct{}{}
			}()
		}
		synctest.Wait()
		require.Len(t, done, holders)
		require.Zero(t, b.Used())
	})
}

func TestAWaiterGivesUpWhenNoneWasGrantedForItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const others, each, patience = 10, 900 * time.Millisecond, time.Second
		b := budget.New(10)
		require.True(t, b.TryTake(10))
		var wg sync.WaitGroup
		for range others {
			wg.Go(func() {
				assert.True(t, b.Take(10, patience, nil))
				time.Sleep(each) // holds it for this long, in the bubble's time
				b.Give(10)
			})
			synctest.Wait()
		}
		begin := time.Now()
		wg.Go(func() {
			assert.True(t, b.Take(10, patience, nil))
			assert.Equal(t, others*each, time.Since(begin))
		})
		synctest.Wait()
		wg.Go(func() {
			assert.False(t, b.Take(10, patience, nil), "the one before keeps all of it")
			assert.Equal(t, others*each+patience, time.Since(begin))
		})
		synctest.Wait()
		b.Give(10)
		wg.Wait()
	})
}

func TestAWaiterThatGivesUpLeavesTheAmountToTheNext(t *testing.T) {
	for name, give := range map[string]func(stop chan struct{}){
		"patience ends": func(chan struct{}) { time.Sleep(time.Second) },
		"stopped":       func(stop chan struct{}) { close(stop) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := budget.New(10)
				require.True(t, b.TryTake(5))
				stop := make(chan struct{})
				first, second := make(chan bool, 1), make(chan bool, 1)
				go func() { first <- b.Take(8, time.Second, stop) }()
				synctest.Wait()
				go func() { second <- b.Take(5, time.Hour, nil) }()
				synctest.Wait()
				give(stop)
				synctest.Wait()
				require.False(t, <-first)
				require.True(t, <-second)
				require.EqualValues(t, 10, b.Used())
			})
		})
	}
}
