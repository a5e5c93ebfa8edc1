package behaviour_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/follow"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/plan"
	"mcmw/internal/route"
)

// Policies of a pool with tombstones.
var (
	holding      = plan.Policy{Holds: true}
	holdingLarge = plan.Policy{Holds: true, Large: plan.Large{Limit: 1 << 20, Item: 16 << 10}}
)

// twoRegions returns a middleware of a region main, and one of a region that follows it with tombstones that stay for
// hold. there are the options of the latter, without servers. through: deliveries go through another middleware there,
// otherwise to the servers.
func twoRegions(t *testing.T, hold time.Duration, there middleware.Options, through bool) (main, other *mwtest.MW) {
	t.Helper()
	servers := mctest.StartNewMemcacheds(t, 4)
	to := pooled("other", route.Options{Replicas: 2}, servers[:3]...)
	to.Large, to.Holds, to.Writers = there.Large, there.Holds, there.Writers
	there.Pools, there.Routes.Default = []middleware.PoolOptions{to}, "other"
	if through && there.Large.Limit == 0 {
		stripped := pooled("stripped", route.Options{}, servers[3])
		stripped.Holds = there.Holds
		there.Pools = append(there.Pools, stripped)
		there.Routes.Prefixes = []route.Prefix{{Prefix: "s:", Pool: "stripped", Strip: true}}
	}
	other = mwtest.Start(t, there)
	o := followed(follow.Options{Hold: hold}, mctest.StartMemcacheds(t, 1), nil)
	if o.Follows[0].To.Servers = to.Servers; through {
		another := mwtest.Start(t, there)
		o.Follows[0].To.Servers = []route.Server{{Name: "region", Addr: another.Addr()}}
	} else {
		o.Follows[0].To.Options = to.Options
	}
	return mwtest.Start(t, o), other
}

func TestAnOldRowDoesNotComeBackWhileADeleteHolds(t *testing.T) {
	for _, r := range []struct {
		name    string
		through bool
		there   middleware.Options
	}{
		{"to the servers", false, middleware.Options{Policy: holding}},
		{"through another middleware", true, middleware.Options{Policy: holding}},
		{"with one writer", false, middleware.Options{Policy: holding, Writers: middleware.WritersOne}},
		{"with large values", true, middleware.Options{Policy: holdingLarge}},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			main, there := twoRegions(t, time.Hour, r.there, r.through)
			c, o := main.Dial(t), there.Dial(t)
			value := "old"
			if r.there.Large.Limit > 0 {
				value = strings.Repeat(value, 10_000)
			}
			row := fmt.Sprintf("%d\r\n%s\r\n", len(value), value)
			for _, key := range []string{"k", "s:k", "s:" + strings.Repeat("k", 248)} {
				t.Log(key)
				set := "set " + key + " 0 0 " + row
				o.MustDo(t, set)
				c.MustDo(t, "delete "+key+"\r\n")
				awaitFollower(t, main, paid)
				absent := func() {
					t.Helper()
					require.Equal(t, "END\r\n", o.MustDo(t, "get "+key+"\r\n"))
				}
				absent()
				require.Equal(t, "NOT_STORED\r\n", o.MustDo(t, "add "+key+" 0 0 "+row))
				absent()
				require.Equal(t, "NS\r\n", o.MustDo(t, fmt.Sprintf("ms %s %d ME\r\n%s\r\n", key, len(value), value)))
				absent()
				require.NoError(t, o.Send(fmt.Appendf(nil, "add %s 0 0 %d noreply\r\n%s\r\n", key, len(value), value)))
				absent()

				leased := o.MustDo(t, "mg "+key+" N30 c\r\n")
				require.Regexp(t, `^HD c\d+ W`, leased)
				token := strings.TrimPrefix(strings.Fields(leased)[1], "c")
				lease := fmt.Sprintf("ms %s %d C%s\r\n%s\r\n", key, len(value), token, value)
				require.Equal(t, "NF\r\n", o.MustDo(t, lease))
				absent()

				require.Equal(t, "STORED\r\n", o.MustDo(t, set), "a set is not stopped")
				gets := strings.Fields(o.MustDo(t, "gets "+key+"\r\n"))
				require.Equal(t, "NOT_FOUND\r\n", o.MustDo(t, fmt.Sprintf("cas %s 0 0 %d %s\r\n%s\r\n", key, len(value),
					gets[4], value)))
				absent()
				require.Equal(t, "STORED\r\n", o.MustDo(t, set))
				require.Equal(t, "NOT_STORED\r\n", o.MustDo(t, "add "+key+" 0 0 "+row), "it is there")
				require.NotEqual(t, "END\r\n", o.MustDo(t, "get "+key+"\r\n"))
				require.Equal(t, "NOT_STORED\r\n", o.MustDo(t, "replace "+key+" 0 0 "+row))
				absent()
			}
			assert.Equal(t, "STORED\r\n", o.MustDo(t, "add another 0 0 1\r\n1\r\n"))
		})
	}
}

func TestARowComesBackAfterTheHoldOrWithoutIt(t *testing.T) {
	for _, r := range []struct {
		name  string
		hold  time.Duration
		there middleware.Options
	}{
		{"after it", time.Second, middleware.Options{Policy: holding}},
		{"a region that does not heed it", time.Hour, middleware.Options{}},
		{"a pool that follows without it", 0, middleware.Options{Policy: holding}},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			main, there := twoRegions(t, r.hold, r.there, true)
			c, o := main.Dial(t), there.Dial(t)
			c.MustDo(t, "delete k\r\n")
			awaitFollower(t, main, paid)
			add := "add k 0 0 1\r\n1\r\n"
			if r.name == "after it" {
				stored := func() bool { return o.MustDo(t, add) == "STORED\r\n" }
				require.Eventually(t, stored, mctest.Patience, mctest.Tick)
			} else {
				require.Equal(t, "STORED\r\n", o.MustDo(t, add))
			}
		})
	}
}

func TestNoneOfManyOldRowsComesBackWhileDeletesAreDelivered(t *testing.T) {
	for _, through := range []bool{false, true} {
		t.Run(fmt.Sprint(through), func(t *testing.T) {
			t.Parallel()
			main, there := twoRegions(t, time.Hour, middleware.Options{Policy: holding}, through)
			const keys, readers = 200, 4
			stop := make(chan struct{})
			var reading sync.WaitGroup
			for range readers {
				o := there.Dial(t)
				reading.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
							o.MustDo(t, fmt.Sprintf("add k%d 0 0 3\r\nold\r\n", i%keys))
						}
					}
				})
			}
			c := main.Dial(t)
			for i := range keys {
				c.MustDo(t, fmt.Sprintf("delete k%d\r\n", i))
			}
			awaitFollower(t, main, paid)
			close(stop)
			reading.Wait()
			o := there.Dial(t)
			for i := range keys {
				require.Equal(t, "END\r\n", o.MustDo(t, fmt.Sprintf("get k%d\r\n", i)))
			}
		})
	}
}
