package stats

// Memcached is what a memcached server says of itself in `stats`. Counts are since it was started.
type Memcached struct {
	Bytes          uint64 `json:"bytes"` // of the items that it holds
	Limit          uint64 `json:"limit"` // the bytes that it may hold
	Items          uint64 `json:"items"`
	Evictions      uint64 `json:"evictions"` // items that were removed, unexpired, to make room
	Hits           uint64 `json:"hits"`      // keys that reads found, of all its clients
	Misses         uint64 `json:"misses"`    // keys that they did not
	Connections    uint64 `json:"connections"`
	MaxConnections uint64 `json:"maxConnections"`
}
