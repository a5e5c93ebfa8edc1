package queue

import (
	"fmt"
	"sync"
	"testing"
)

// BenchmarkHandOver measures the cost of handing a batch to a worker and of learning that it is answered, with the
// given number of connections waiting at a time.
func BenchmarkHandOver(b *testing.B) {
	for _, connections := range []int{1, 64} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			lanes := NewLanes(1, 1024, nil)
			entrance := NewEntrance(lanes)
			answered := make([]chan struct{}, connections)
			for i := range answered {
				answered[i] = make(chan struct{}, 1)
			}
			var worker, readers sync.WaitGroup
			worker.Go(func() {
				for batch := range lanes.Queue(0) {
					entrance.Leave()
					answered[batch.Next] <- struct{}{}
				}
			})
			b.ReportAllocs()
			b.ResetTimer()
			for i := range connections {
				readers.Go(func() {
					own := batch(make([]int32, connections)...)
					own.Next = i // the connection that it belongs to
					for range b.N / connections {
						entrance.Put(own)
						<-answered[i]
					}
				})
			}
			readers.Wait()
			b.StopTimer()
			lanes.Close()
			worker.Wait()
		})
	}
}
