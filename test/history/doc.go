// Package history puts loads on a memcached service, with mcmw or without, and judges whether the answers could be
// those of a correct one.
//
// The load is an open loop: each connection sends a request when it is due, whether or not earlier ones are answered.
// Response times count from the due time. Every value contains its key and the number of its write, and must be
// complete. Each key has one writer. The acknowledged writes are known when a read is sent, so every read is judged
// exactly:
//
//   - wrong: a value that nobody stored under the key, or bytes that do not answer the request;
//   - stale: older than the last write that was acknowledged, or than the last value that was read, before this read
//     was sent. A write that failed may or may not take effect; a miss is allowed. In scenarios that kill mcmw, a value
//     that is older than one read before but not older than the last acknowledged write is counted separately
//     (withdrawn): until a sweep, some servers have the write that mcmw was making and others do not;
//   - lost: the connection ended, or no answer came within 30 s.
//
// Some keys have several writers, each of which uses all addresses of the service. A value is stale there if it was
// replaced by a write that began after the value's own was answered, and was itself answered before the read began. No
// increment and no cas may be lost or count twice, one of several adds of a key must win, and at the end all addresses
// must return the same values.
package history
