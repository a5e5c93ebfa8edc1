package middleware

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/secret"
)

// Security configures TLS and authentication, for clients and towards servers. The zero value trusts the network. The files are
// read again when they change.
type Security struct {
	// TLS are the files for the clients' connections; without Cert these don't use TLS.
	TLS secret.ServerFiles
	// HandshakeTimeout is how long a client may take for the TLS handshake; 0 means DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration
	// AuthFile has the names and passwords of clients; a client must authenticate before it is served; "": no
	// authentication.
	AuthFile string
	// ServerTLS: connections to servers use TLS, with ServerFiles.
	ServerTLS   bool
	ServerFiles secret.ClientFiles
	// ServerAuthFile has the user name and the password for the servers; "": none. With several pools PoolOptions has it instead.
	ServerAuthFile string
}

// DefaultHandshakeTimeout is the default of Security.HandshakeTimeout.
const DefaultHandshakeTimeout = 10 * time.Second

// noTLS before a listen address exempts it from TLS, as in memcached.
const noTLS = "notls:"

// access is the contents of the files of Security and of the pools.
type access struct {
	tls     *tls.Config                      // of listeners; nil without TLS
	allow   func(user, password []byte) bool // nil: all clients are served
	servers func(host string) *tls.Config    // of connections to servers that use TLS
	logins  map[string]login                 // by file
}

// login returns a user name and a password for servers.
type login = func() (user, password string)

// open reads the files.
func (s Security) open(log *slog.Logger) (a access, err error) {
	if s.TLS.Cert != "" {
		if a.tls, err = secret.ServerTLS(s.TLS, log); err != nil {
			return a, err
		}
	}
	if s.AuthFile != "" {
		if a.allow, err = secret.Users(s.AuthFile, log); err != nil {
			return a, err
		}
	}
	if s.ServerTLS {
		a.servers, err = secret.ClientTLS(s.ServerFiles, log)
	}
	return a, err
}

// openLogins reads those files with logins for the pools' servers that were not read before.
func (a *access) openLogins(pools []PoolOptions, log *slog.Logger) error {
	for _, p := range pools {
		if p.ServerAuthFile == "" || a.logins[p.ServerAuthFile] != nil {
			continue
		}
		l, err := secret.Login(p.ServerAuthFile, log)
		if err != nil {
			return err
		}
		if a.logins == nil {
			a.logins = map[string]login{}
		}
		a.logins[p.ServerAuthFile] = l
	}
	return nil
}

// to returns what is needed to connect to the servers of the pool o.
func (a *access) to(o *PoolOptions) backend.Access {
	to := backend.Access{Login: a.logins[o.ServerAuthFile]}
	if o.ServerTLS {
		to.TLS = a.servers
	}
	return to
}

// access reads the files of o.
func (o *Options) access() (a access, err error) {
	if a, err = o.Security.open(o.Log); err == nil {
		err = a.openLogins(o.Pools, o.Log)
	}
	return a, err
}

// Check reads the files as New would, and returns its error, a *secret.FileError.
func (s Security) Check() error {
	o := Options{Security: s}.withDefaults()
	_, err := o.access()
	return err
}

// secured returns addr, a listen address, without its prefix, and whether clients must use TLS there: on TCP, unless the prefix exempts the
// address.
func (s Security) secured(addr string) (address string, secure bool) {
	address, plain := strings.CutPrefix(addr, noTLS)
	network, _ := backend.Network(address)
	return address, s.TLS.Cert != "" && !plain && network == "tcp"
}

// validate returns an error for the first option that is out of range, or has no effect without another one.
func (s Security) validate(listen []string) error {
	switch {
	case s.HandshakeTimeout < 1:
		return fmt.Errorf("handshake timeout is %d; accepted: 1 or more", s.HandshakeTimeout)
	case (s.TLS.Cert == "") != (s.TLS.Key == ""), (s.ServerFiles.Cert == "") != (s.ServerFiles.Key == ""):
		return errors.New("only one of a certificate and its key is set; accepted: both or none")
	case s.TLS.ClientCA != "" && s.TLS.Cert == "":
		return errors.New("a CA for clients' certificates is set, but TLS for clients is off; set a certificate and its key as well")
	case s.ServerFiles != secret.ClientFiles{} && !s.ServerTLS:
		return errors.New("certificates for connections to servers are set, but TLS to servers is off; turn it on")
	}
	for _, addr := range listen {
		if s.TLS.Cert == "" && strings.HasPrefix(addr, noTLS) {
			return fmt.Errorf("listen address %s is exempt from TLS, but TLS is off; remove %s", addr, noTLS)
		}
	}
	return nil
}
