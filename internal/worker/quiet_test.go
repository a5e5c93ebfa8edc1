package worker_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/middleware"
)

func TestAQuietArithmeticCommandThatCreatesItsItemIsNotAnswered(t *testing.T) {
	for _, n := range []int{1, 3} {
		pools(t, func(t *testing.T, o middleware.Options) {
			m, _ := replicas(t, n, o)
			c := dial(t, m.Addr())
			assert.Equal(t, "MN\r\n", c.ask("ma k N0 v q\r\nmn\r\n", 1))
			assert.Equal(t, "VA 1\r\n0\r\n", c.ask("mg k v\r\n", 2))
			assert.Equal(t, "CLIENT_ERROR invalid or duplicate flag\r\n", c.ask("ma k N0 v q q\r\n", 1))
			assert.Equal(t, "CLIENT_ERROR duplicate flag\r\n", c.ask("mg k v v\r\n", 1))
		})
	}
}
