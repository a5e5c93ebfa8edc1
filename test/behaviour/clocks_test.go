package behaviour_test

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/marker"
	"mcmw/internal/mctest"
)

var (
	dumpedItem = regexp.MustCompile(`key=(\S+) .*cas=(\d+)`)
	longNumber = regexp.MustCompile(`\d{9,}`)
)

// Middlewares communicate only through the servers. They store no times of their clocks there, so clocks may differ by
// hours.
func TestMiddlewaresStoreNoTimesOfTheirClocks(t *testing.T) {
	t.Parallel()
	require.True(t, isTimeOfDay(strconv.FormatInt(time.Now().UnixMilli(), 10)))
	servers := mctest.StartNewMemcacheds(t, 3)
	o := liveOptions()
	o.SweepEvery, o.Timeout = 100*time.Millisecond, 500*time.Millisecond
	fleet, proxies := behindProxies(t, 2, o, servers)
	keys := numbered(10)
	insist(t, fleet[0].Addr(), keys, "1")
	awaitSweeps(t, fleet...)
	proxies[0][1].Inject(unreachable)
	insist(t, fleet[0].Addr(), keys, "2") // now there are marks
	seen := map[string]bool{}
	for _, s := range servers {
		for key, text := range dumped(t, s) {
			seen[key] = true
			for _, number := range longNumber.FindAllString(text, -1) {
				require.False(t, isTimeOfDay(number), "%q holds %q, in which %s is a time", key, text, number)
			}
		}
	}
	for _, key := range append(keys, marker.RecordKey, marker.MarksKey, marker.RunningKey) {
		require.True(t, seen[key], "%q was not seen", key)
	}
}

// dumped returns the value and the cas of each item on s by key, except for the server's own time that a sweep notes,
// and the start time of a middleware, which is for people.
func dumped(t *testing.T, s *mctest.Server) map[string]string {
	t.Helper()
	c := mctest.MustDial(t, s.Addr())
	defer c.Close()
	list := func() { require.NoError(t, c.Send([]byte("lru_crawler metadump all\r\n"))) }
	list()
	items := map[string]string{}
	for {
		line, err := c.Line()
		require.NoError(t, err)
		if strings.HasPrefix(line, "END") {
			break
		}
		if strings.HasPrefix(line, "BUSY") { // a sweep is listing the items
			list()
			continue
		}
		parts := dumpedItem.FindStringSubmatch(line)
		require.NotNil(t, parts, "%q", line)
		key, err := url.QueryUnescape(parts[1])
		require.NoError(t, err)
		items[key] = "cas " + parts[2]
	}
	for key := range items {
		if strings.HasPrefix(key, marker.Prefix) && key != marker.SweptKey && key != marker.RunningKey {
			items[key] += ", " + c.MustDo(t, "mg "+base64.StdEncoding.EncodeToString([]byte(key))+" b v\r\n")
		}
	}
	return items
}

// isTimeOfDay reports whether number is a time near today, in any unit from seconds to nanoseconds since 1970.
func isTimeOfDay(number string) bool {
	n, err := strconv.ParseFloat(number, 64)
	now := float64(time.Now().Unix())
	for _, unit := range []float64{1, 1e3, 1e6, 1e9} {
		if days := (n/unit - now) / (24 * 3600); err == nil && -2 < days && days < 2 {
			return true
		}
	}
	return false
}
