package request

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestABufferHasAtLeastTheRequestedSize(t *testing.T) {
	for _, size := range []int{1, ReadSize, ReadSize + 1, 1 << 20, 1<<20 + 64, 5 << 20} {
		b := GetBuffer(size)
		assert.GreaterOrEqual(t, len(b.B), size)
		b.Release()
	}
}

func TestAReleasedBatchForgetsItsRequests(t *testing.T) {
	b := GetBuffer(1).Batch(nil)
	b.Requests = append(b.Requests, Request{Lane: 3}, Request{Lane: 4})
	b.Next = 1
	assert.False(t, b.Answered())
	b.Next = 2
	assert.True(t, b.Answered())
	requests := b.Requests
	b.Release()
	assert.Zero(t, requests[0])
	assert.Zero(t, requests[1])
}
