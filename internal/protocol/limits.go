package protocol

import "cmp"

// Limits bound what a client may send. Zero fields mean memcached's defaults.
type Limits struct {
	// MaxKey is the maximum length of a key in bytes; 0 means DefaultMaxKey.
	MaxKey int
	// MaxValue is the maximum size of a value in bytes; 0 means DefaultMaxValue. A larger one is refused with
	// memcached's "SERVER_ERROR object too large for cache", and its data is skipped.
	MaxValue int
	// MaxLine is the number of bytes that may arrive without a line end before the connection is closed; 0 means
	// DefaultMaxLine. Lines of get and gets may have up to MaxMultiGetLine bytes.
	MaxLine int
	// MaxMultiGetLine bounds the line of a get or gets, in bytes; 0 means DefaultMaxMultiGetLine.
	MaxMultiGetLine int
}

// Defaults of Limits: memcached 1.6's KEY_MAX_LENGTH, its -I 1m, and the 2,048 bytes after which it gives up on a line.
// memcached has no bound for the line of a multi-get; 16 MiB holds 64,000 keys of the maximum length.
const (
	DefaultMaxKey          = 250
	DefaultMaxValue        = 1 << 20
	DefaultMaxLine         = 2048
	DefaultMaxMultiGetLine = 16 << 20
)

// WithDefaults returns l with memcached's defaults in its zero fields.
func (l Limits) WithDefaults() Limits {
	return Limits{
		MaxKey:          cmp.Or(l.MaxKey, DefaultMaxKey),
		MaxValue:        cmp.Or(l.MaxValue, DefaultMaxValue),
		MaxLine:         cmp.Or(l.MaxLine, DefaultMaxLine),
		MaxMultiGetLine: cmp.Or(l.MaxMultiGetLine, DefaultMaxMultiGetLine),
	}
}
