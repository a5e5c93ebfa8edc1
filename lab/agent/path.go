package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// A connection to a path server begins with one of these bytes.
const (
	wantEcho = 'e' // every byte comes back
	// bytes are read until the client closes its half; then their number comes back, 8 bytes, big endian
	wantUpload   = 'u'
	wantDownload = 'd' // bytes are sent until the client closes
)

const (
	pingSize   = 64  // bytes: a small request or reply
	pings      = 500 // after warmPings
	warmPings  = 20
	bulkBuffer = 256 << 10
	// pathTimeout is how much longer a connection of the path server or its client may last than the measurement.
	pathTimeout = 30 * time.Second
)

// ServePath serves measurements of the path to this host until ctx ends.
func ServePath(ctx context.Context, listener net.Listener) error {
	return serve(ctx, listener, func(_ context.Context, conn net.Conn) { servePath(conn) })
}

// serve calls handle for every connection of a listener, each in a goroutine, and closes them when handle returns or
// its context ends, which it does when ctx ends or no more connections can be accepted. It returns when all have ended;
// nil if that is because ctx has ended.
func serve(ctx context.Context, listener net.Listener, handle func(context.Context, net.Conn)) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	context.AfterFunc(ctx, func() { listener.Close() })
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case err != nil:
			return fmt.Errorf("listening on %v: %w", listener.Addr(), err)
		}
		connections.Go(func() {
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			handle(ctx, conn)
		})
	}
}

// servePath serves one measurement. A client that disconnects has finished, or reports the error itself.
func servePath(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(pathTimeout))
	kind := make([]byte, 1)
	if _, err := io.ReadFull(conn, kind); err != nil {
		return
	}
	// Bytes are read and written by this program, not passed on in the kernel.
	switch kind[0] {
	case wantEcho:
		_, _ = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}, make([]byte, pingSize))
	case wantUpload:
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, conn, make([]byte, bulkBuffer)); err == nil {
			_ = binary.Write(conn, binary.BigEndian, n)
		}
	case wantDownload:
		for buffer := make([]byte, bulkBuffer); ; {
			if _, err := conn.Write(buffer); err != nil {
				return
			}
		}
	}
}

// Path describes a network path between two hosts without other load.
type Path struct {
	// RoundTrip are the round-trip times of small messages: mean, minimum and 99th percentile, seconds.
	RoundTripMean float64 `json:"round_trip_mean"`
	RoundTripMin  float64 `json:"round_trip_min"`
	RoundTripP99  float64 `json:"round_trip_p99"`
	// Upload and Download are the throughput of one connection to the server and from it, bytes per second.
	Upload   float64 `json:"upload"`
	Download float64 `json:"download"`
}

// Dilated returns the path as seen by hosts whose time passes slower, by that factor, than the clock of the
// measurement.
func (p Path) Dilated(factor float64) Path {
	return Path{
		RoundTripMean: p.RoundTripMean / factor, RoundTripMin: p.RoundTripMin / factor,
		RoundTripP99: p.RoundTripP99 / factor,
		Upload:       p.Upload * factor, Download: p.Download * factor,
	}
}

// MeasurePath measures the path from this host to a path server: round trips, and the bandwidth of each direction for
// the time bulk.
func MeasurePath(ctx context.Context, address string, bulk time.Duration) (p Path, err error) {
	for _, step := range []struct {
		kind    byte
		measure func(net.Conn, time.Duration) error
	}{{wantEcho, p.roundTrips}, {wantUpload, p.upload}, {wantDownload, p.download}} {
		if err := withConnection(ctx, address, step.kind, bulk, step.measure); err != nil {
			return p, fmt.Errorf("measuring the path to %s: %w", address, err)
		}
	}
	return p, nil
}

func withConnection(ctx context.Context, address string, kind byte, bulk time.Duration,
	measure func(net.Conn, time.Duration) error,
) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(bulk + pathTimeout))
	if _, err := conn.Write([]byte{kind}); err != nil {
		return err
	}
	return measure(conn, bulk)
}

func (p *Path) roundTrips(conn net.Conn, _ time.Duration) error {
	message := make([]byte, pingSize)
	times := make([]float64, 0, pings)
	for i := range warmPings + pings {
		began := time.Now()
		if _, err := conn.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, message); err != nil {
			return err
		}
		if i >= warmPings {
			times = append(times, time.Since(began).Seconds())
		}
	}
	slices.Sort(times)
	var sum float64
	for _, t := range times {
		sum += t
	}
	p.RoundTripMean, p.RoundTripMin, p.RoundTripP99 = sum/pings, times[0], times[pings*99/100]
	return nil
}

func (p *Path) upload(conn net.Conn, length time.Duration) error {
	buffer := make([]byte, bulkBuffer)
	began := time.Now()
	for time.Since(began) < length {
		if _, err := conn.Write(buffer); err != nil {
			return err
		}
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	// The bytes that the server has read; buffers on the path have accepted more.
	var arrived uint64
	if err := binary.Read(conn, binary.BigEndian, &arrived); err != nil {
		return err
	}
	p.Upload = float64(arrived) / time.Since(began).Seconds()
	return nil
}

func (p *Path) download(conn net.Conn, length time.Duration) error {
	buffer := make([]byte, bulkBuffer)
	var arrived uint64
	began := time.Now()
	for time.Since(began) < length {
		n, err := conn.Read(buffer)
		arrived += uint64(n)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	p.Download = float64(arrived) / time.Since(began).Seconds()
	return nil
}
