package stats

// Memcached holds statistics that a memcached server returns for `stats`. Counts are since the server was started.
type Memcached struct {
	Bytes          uint64 `json:"bytes"` // size of its items
	Limit          uint64 `json:"limit"` // maximum size of its items, in bytes
	Items          uint64 `json:"items"`
	Evictions      uint64 `json:"evictions"` // unexpired items that were removed to make room
	Hits           uint64 `json:"hits"`      // keys that reads of all its clients found
	Misses         uint64 `json:"misses"`    // keys that they did not find
	Connections    uint64 `json:"connections"`
	MaxConnections uint64 `json:"maxConnections"`
}
