package protocol

import (
	"bytes"
	"errors"
	"strconv"
)

// Login is the request that a client of a server with --auth-file must send first: a set, of any key, with the value
// "user password". Its slices point into the buffer it was decoded from.
type Login struct {
	// Answer, if not empty, is the reply to a request that cannot be a correct login.
	Answer string
	// User and Password are the credentials that the client sent.
	User, Password []byte
}

// memcached's replies to logins.
const (
	TextStored          = "STORED\r\n"
	TextUnauthenticated = "CLIENT_ERROR unauthenticated\r\n"
	TextLoginFailed     = "CLIENT_ERROR authentication failure\r\n"
	textLoginFormat     = "CLIENT_ERROR bad authentication token format\r\n"
	textLoginEnd        = "CLIENT_ERROR bad command line termination\r\n"
)

// ErrLoginTooLarge: memcached reads a login into a fixed-size buffer, and closes the connection if it does not fit.
var ErrLoginTooLarge = errors.New("login too large")

const (
	// maxLoginLine is the number of bytes without a line end after which memcached closes the connection.
	maxLoginLine = 2048
	// maxLoginValue is the number of bytes of a login after its line that fit into memcached's buffer,
	// READ_BUFFER_SIZE.
	maxLoginValue = 16 << 10
)

// DecodeLogin decodes the login at the front of buf, from a client that is not authenticated yet, into r and returns
// its length in bytes. 0 means that it is incomplete; need is then its total length, or 0 if that isn't known yet.
// After an error the connection must be closed.
func DecodeLogin(buf []byte, r *Login) (n, need int, err error) {
	*r = Login{}
	if len(buf) < 2 {
		return 0, 0, nil
	}
	eol := bytes.IndexByte(buf, '\n')
	switch {
	case eol < 0 && len(buf) > maxLoginLine:
		return 0, 0, ErrLineTooLong
	case eol < 0:
		return 0, 0, nil
	}
	n = eol + 1
	var w words
	w.split(cString(bytes.TrimSuffix(buf[:eol], []byte("\r"))))
	number, ok := w.uint32(4)
	if !ok || !w.is(0, "set") {
		r.Answer = TextUnauthenticated
		return n, 0, nil
	}
	size := int(number)
	if size+2 > maxLoginValue {
		return 0, 0, ErrLoginTooLarge
	}
	total := n + size + 2
	if len(buf) < total {
		return 0, total, nil
	}
	value := buf[n:total]
	if string(value[size:]) != CRLF {
		r.Answer = textLoginEnd
		return total, 0, nil
	}
	w.split(cString(value[:size]))
	if w.n < 2 {
		r.Answer = textLoginFormat
		return total, 0, nil
	}
	r.User, r.Password = w.word[0], w.word[1]
	return total, 0, nil
}

// cString returns b up to its first zero byte, where memcached's string ends.
func cString(b []byte) []byte {
	if nul := bytes.IndexByte(b, 0); nul >= 0 {
		return b[:nul]
	}
	return b
}

// AppendLogin appends a login. A server without authentication takes it for a set. The item it then stores has an
// unlikely key and has already expired, so nobody can read the password.
func AppendLogin(dst []byte, user, password string) []byte {
	dst = append(dst, "set mcmw-login 0 -1 "...)
	dst = strconv.AppendInt(dst, int64(len(user)+1+len(password)), 10)
	for _, s := range []string{CRLF, user, " ", password, CRLF} {
		dst = append(dst, s...)
	}
	return dst
}
