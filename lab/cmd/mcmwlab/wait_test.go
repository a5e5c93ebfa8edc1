package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWaitDoesNothingUntilItIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, _, err := lab(ctx, "wait")
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("it ended on its own: %v", err)
	default:
	}
	interrupt()
	require.NoError(t, <-ended)
}
