// Command clock says that it has started, and then by how much its wall clock and its monotonic clock went on from its start to the end of its input.
package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	start := time.Now()
	fmt.Println("started")
	_, _ = io.Copy(io.Discard, os.Stdin)
	end := time.Now()
	fmt.Println(end.Round(0).Sub(start.Round(0)), end.Sub(start))
}
