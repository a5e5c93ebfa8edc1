package route

import (
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net"
	"slices"
	"strings"
)

const (
	// pointsWeighted is the number of points that a server of average weight has on twemproxy's and libmemcached's
	// weighted ring.
	pointsWeighted = 160
	// pointsPerDigest is the number of points made from one MD5 on such a ring: its four 32-bit words.
	pointsPerDigest = 4
	// pointsUnweighted is the number of points of every server on libmemcached's unweighted ring.
	pointsUnweighted = 100
	// defaultPort is the port that ketama omits from the hashed name.
	defaultPort = "11211"
	// maxServers bounds the ring's table: at 500 servers with 500 replicas of each key it takes 80 MB.
	maxServers = 500
	// maxWeight is the largest weight that libmemcached and twemproxy can both add up over maxServers without overflow.
	maxWeight = 1_000_000
)

// point is a position on the ring and the server that holds the keys up to it.
type point struct {
	value  uint32
	server int
}

// identity is the part of a server's name that is hashed. Rendezvous hashing uses all of it. Ketama omits port 11211
// and the brackets of IPv6 addresses. To the path of a unix socket twemproxy appends a colon, and libmemcached port 0.
func (k RingKind) identity(name string) string {
	if k == RingRendezvous {
		return name
	}
	if path, ok := strings.CutPrefix(name, "unix:"); ok {
		if k == RingTwemproxy {
			return path + ":"
		}
		return path + ":0"
	}
	host, port, err := net.SplitHostPort(name)
	switch {
	case err != nil:
		return name
	case port == defaultPort:
		return host
	default:
		return host + ":" + port
	}
}

// points returns the points of all servers, sorted by value. For points of equal value the order is that of the
// original program: libmemcached puts the server listed first in front, twemproxy the one with the shorter, then the
// lesser name.
func (k RingKind) points(servers []Server, hash HashKind) []point {
	var points []point
	total := 0
	for _, s := range servers {
		total += max(s.Weight, 1)
	}
	ids := make([]string, len(servers))
	for i, s := range servers {
		ids[i] = k.identity(s.Name)
		if k == RingLibmemcached {
			for j := range pointsUnweighted {
				points = append(points, point{hash.sum(fmt.Appendf(nil, "%s-%d", ids[i], j)), i})
			}
			continue
		}
		for j := range digests(max(s.Weight, 1), total, len(servers)) {
			sum := md5.Sum(fmt.Appendf(nil, "%s-%d", ids[i], j))
			for w := range pointsPerDigest {
				points = append(points, point{binary.LittleEndian.Uint32(sum[4*w:]), i})
			}
		}
	}
	slices.SortFunc(points, func(a, b point) int {
		if c := cmp.Compare(a.value, b.value); c != 0 || k != RingTwemproxy {
			return cmp.Or(c, cmp.Compare(a.server, b.server))
		}
		x, y := ids[a.server], ids[b.server]
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
	})
	return points
}

// digests returns how many MD5 digests a server of the given weight has on a ring of n servers: its share of 40*n,
// rounded down. The computation is in single precision because the originals' is, and rounding affects the result.
func digests(weight, total, n int) int {
	share := float32(weight) / float32(total)
	perServer := float32(share*pointsWeighted) / pointsPerDigest
	return int(math.Floor(float64(float32(perServer * float32(n)))))
}

// ring is the sorted points and, for each, the servers that hold the keys up to it. It is immutable.
type ring struct {
	values []uint32 // sorted
	// table has n server indexes for each point: its own server, then the next distinct ones along the ring.
	table []uint16
	n     int
	// start[b] is the first point whose value is not below bucket b, that is, the values with the same top bits; start
	// has one more entry than there are buckets. There are about as many buckets as points, so a search visits only a
	// few.
	start []uint32
	shift uint // value >> shift is the bucket
}

// newRing builds the ring of sorted points with n holders per point. Servers too light to have a point come last, in
// their order.
func newRing(points []point, servers, n int) ring {
	bucketBits := bits.Len(uint(len(points) - 1))
	r := ring{
		values: make([]uint32, len(points)),
		table:  make([]uint16, len(points)*n),
		n:      n,
		start:  make([]uint32, 1<<bucketBits+1),
		shift:  uint(32 - bucketBits),
	}
	next := 0
	for i, p := range points {
		r.values[i] = p.value
		for ; next <= int(p.value>>r.shift); next++ {
			r.start[next] = uint32(i)
		}
	}
	for ; next < len(r.start); next++ {
		r.start[next] = uint32(len(points))
	}
	// order lists every server in the order in which it is met from the current point onwards. The loop below goes
	// backwards, and each point moves its server to the front.
	order := make([]uint16, 0, servers)
	seen := make([]bool, servers)
	for _, p := range points {
		if !seen[p.server] {
			seen[p.server] = true
			order = append(order, uint16(p.server))
		}
	}
	for s := range servers {
		if !seen[s] {
			order = append(order, uint16(s))
		}
	}
	for i := len(points) - 1; i >= 0; i-- {
		at := slices.Index(order, uint16(points[i].server))
		copy(order[1:at+1], order[:at])
		order[0] = uint16(points[i].server)
		copy(r.table[i*n:], order[:n])
	}
	return r
}

// holders returns the servers of the first point at or after hash.
func (r *ring) holders(hash uint32) []uint16 {
	b := hash >> r.shift
	i, end := r.start[b], r.start[b+1]
	for i < end {
		if mid := (i + end) / 2; r.values[mid] < hash {
			i = mid + 1
		} else {
			end = mid
		}
	}
	if int(i) == len(r.values) {
		i = 0
	}
	return r.table[int(i)*r.n : (int(i)+1)*r.n]
}
