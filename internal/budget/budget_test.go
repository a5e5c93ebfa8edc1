package budget_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/budget"
)

func TestNoMoreIsTakenThanThereIs(t *testing.T) {
	b := budget.New(10)
	require.True(t, b.TryTake(6))
	require.False(t, b.TryTake(5))
	require.True(t, b.TryTake(4))
	b.Give(6)
	require.EqualValues(t, 4, b.Used())
	require.True(t, b.TryTake(6))
}

func TestWhatIsLargerThanTheBudgetIsTakenAlone(t *testing.T) {
	b := budget.New(10)
	require.True(t, b.TryTake(50))
	require.False(t, b.TryTake(1))
	b.Give(50)
	require.True(t, b.TryTake(1))
	require.False(t, b.TryTake(50))
}

func TestThoseWhoWaitAreServedInTheirOrder(t *testing.T) {
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
		require.Empty(t, order, "the first one waits for more than there is, and the others behind it")
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

func TestThoseWhoHaveAPartNeverWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(10)
		require.True(t, b.TryTake(5))
		require.True(t, b.TryTake(5))
		grown := make(chan struct{}, 2)
		for range 2 {
			go func() {
				require.True(t, b.Grow(8, time.Hour, nil))
				grown <- struct{}{}
			}()
		}
		go func() { require.True(t, b.Take(1, time.Hour, nil)) }()
		synctest.Wait()
		require.Len(t, grown, 1, "one at a time gets more than there is")
		require.True(t, b.Wanted())
		b.Give(5) // the smaller part of the first
		synctest.Wait()
		require.Len(t, grown, 1)
		b.Give(8)
		synctest.Wait()
		require.Len(t, grown, 2)
		b.Give(5)
		b.Give(8)
		synctest.Wait()
		require.False(t, b.Wanted())
		require.EqualValues(t, 1, b.Used())
	})
}

func TestWhoGivesUpLetsTheNextOneHaveIt(t *testing.T) {
	for name, give := range map[string]func(stop chan struct{}){
		"patience is over": func(chan struct{}) { time.Sleep(time.Second) },
		"stopped":          func(stop chan struct{}) { close(stop) },
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
