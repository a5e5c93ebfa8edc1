package middleware

import (
	"crypto/tls"
	"log/slog"
	"strings"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/refusal"
	"mcmw/internal/secret"
)

// Security configures TLS and authentication, for clients and towards servers. The zero value trusts the network. The
// files are read again when they change.
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
	// ServerAuthFile has the user name and the password for the servers; "": none. With several pools PoolOptions has
	// it instead.
	ServerAuthFile string
}

// DefaultHandshakeTimeout is the default of Security.HandshakeTimeout.
const DefaultHandshakeTimeout = 10 * time.Second

// noTLS before a listen address exempts it from TLS, as in memcached.
const noTLS = "notls:"

// access is the contents of the files of Security and of the pools.
type access struct {
	tls     *tls.Config                              // of listeners; nil without TLS
	login   func(user, password []byte) *secret.User // nil: all clients are served
	servers func(host string) *tls.Config            // of connections to servers that use TLS
	logins  map[string]login                         // by file
}

// login returns a user name and a password for servers.
type login = func() (user, password string)

// read reads the files.
func (s Security) read(log *slog.Logger) (a access, err error) {
	if s.TLS.Cert != "" {
		if a.tls, err = secret.ServerTLS(s.TLS, log); err != nil {
			return a, err
		}
	}
	if s.AuthFile != "" {
		if a.login, err = secret.Users(s.AuthFile, log); err != nil {
			return a, err
		}
	}
	if s.ServerTLS {
		a.servers, err = secret.ClientTLS(s.ServerFiles, log)
	}
	return a, err
}

// readLogins reads those files with logins for the pools' servers that were not read before.
func (a *access) readLogins(pools []PoolOptions, log *slog.Logger) error {
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
	if a, err = o.Security.read(o.Log); err == nil {
		err = a.readLogins(o.all(), o.Log)
	}
	return a, err
}

// Check reads the files as New would, and returns its error, a *secret.FileError.
func (s Security) Check() error {
	o := Options{Security: s}.withDefaults()
	_, err := o.access()
	return err
}

// secured returns addr, a listen address, without its prefix, and whether clients must use TLS there: on TCP, unless
// the prefix exempts the address.
func (s Security) secured(addr string) (address string, secure bool) {
	address, plain := strings.CutPrefix(addr, noTLS)
	network, _ := backend.Network(address)
	return address, s.TLS.Cert != "" && !plain && network == "tcp"
}

// CheckOptions returns, as *refusal.Errors, the options that have no effect without another one.
func (s Security) CheckOptions(listen []string) (refused []error) {
	for _, o := range []struct {
		option, value string
		needs, needed string // another option with its value; "": none
	}{
		{"tls-cert", s.TLS.Cert, "tls-key", s.TLS.Key},
		{"tls-key", s.TLS.Key, "tls-cert", s.TLS.Cert},
		{"tls-client-ca", s.TLS.ClientCA, "tls-cert", s.TLS.Cert},
		{"server-tls-ca", s.ServerFiles.CA, "", ""},
		{"server-tls-cert", s.ServerFiles.Cert, "server-tls-key", s.ServerFiles.Key},
		{"server-tls-key", s.ServerFiles.Key, "server-tls-cert", s.ServerFiles.Cert},
		{"server-tls-name", s.ServerFiles.Name, "", ""},
	} {
		switch {
		case o.value == "":
		case strings.HasPrefix(o.option, "server-tls") && !s.ServerTLS:
			refused = append(refused, refusal.Of(o.option, "%q has no meaning without server-tls", o.value))
		case o.needs != "" && o.needed == "":
			refused = append(refused, refusal.Of(o.option, "%q needs %s, which is missing", o.value, o.needs))
		}
	}
	for _, addr := range listen {
		if s.TLS.Cert == "" && strings.HasPrefix(addr, noTLS) {
			refused = append(refused, refusal.Of("listen",
				"%q needs tls-cert: without a certificate no address has TLS", addr))
		}
	}
	return refused
}
