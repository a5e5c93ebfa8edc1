// Command golang is a shell around the memcached clients of Go: golang gomemcache|grafana HOST:PORT. See the parent
// package for the commands and the form of results.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	grafana "github.com/grafana/gomemcache/memcache"
)

// client has the functions that both libraries have in different types.
type client struct {
	get    func(key string) (string, error)
	multi  func(keys []string) (map[string]string, error)
	store  func(mode, key, value string, expiry int32) error
	gets   func(key string) (string, error)
	cas    func(key, value string) error
	delete func(key string) error
	incr   func(key string, by uint64) (uint64, error)
	touch  func(key string, expiry int32) error
	flush  func() error
	ping   func() error

	noAppend bool
}

func bradfitz(addr string) client {
	c := memcache.New(addr)
	tokens := map[string]*memcache.Item{}
	return client{
		get: func(key string) (string, error) {
			it, err := c.Get(key)
			if err != nil {
				return "", err
			}
			return string(it.Value), nil
		},
		multi: func(keys []string) (map[string]string, error) {
			items, err := c.GetMulti(keys)
			values := map[string]string{}
			for k, it := range items {
				values[k] = string(it.Value)
			}
			return values, err
		},
		store: func(mode, key, value string, expiry int32) error {
			it := &memcache.Item{Key: key, Value: []byte(value), Expiration: expiry}
			return map[string]func(*memcache.Item) error{
				"set": c.Set, "add": c.Add, "replace": c.Replace,
				"append": c.Append,
			}[mode](it)
		},
		gets: func(key string) (string, error) {
			it, err := c.Get(key)
			if err != nil {
				return "", err
			}
			tokens[key] = it
			return string(it.Value), nil
		},
		cas: func(key, value string) error {
			tokens[key].Value = []byte(value)
			return c.CompareAndSwap(tokens[key])
		},
		delete: c.Delete, incr: c.Increment, touch: c.Touch, flush: c.FlushAll, ping: c.Ping,
	}
}

func fork(addr string) client {
	servers := &grafana.ServerList{}
	if err := servers.SetServers(addr); err != nil {
		panic(err)
	}
	c := grafana.NewFromSelector(servers)
	c.Timeout = 100 * time.Millisecond // Mimir's, Loki's and Thanos's default
	tokens := map[string]*grafana.Item{}
	return client{
		get: func(key string) (string, error) {
			it, err := c.Get(key)
			if err != nil {
				return "", err
			}
			return string(it.Value), nil
		},
		multi: func(keys []string) (map[string]string, error) {
			items, err := c.GetMulti(context.Background(), keys)
			values := map[string]string{}
			for k, it := range items {
				values[k] = string(it.Value)
			}
			return values, err
		},
		store: func(mode, key, value string, expiry int32) error {
			it := &grafana.Item{Key: key, Value: []byte(value), Expiration: expiry}
			return map[string]func(*grafana.Item) error{"set": c.Set, "add": c.Add, "replace": c.Replace}[mode](it)
		},
		gets: func(key string) (string, error) {
			it, err := c.Get(key)
			if err != nil {
				return "", err
			}
			tokens[key] = it
			return string(it.Value), nil
		},
		cas: func(key, value string) error {
			tokens[key].Value = []byte(value)
			return c.CompareAndSwap(tokens[key])
		},
		delete: c.Delete, incr: c.Increment, touch: c.Touch, flush: c.FlushAll, ping: c.Ping, noAppend: true,
	}
}

func show(value string) string {
	if len(value) > 100 {
		return fmt.Sprint(len(value), " bytes")
	}
	return value
}

func expiry(args []string) int32 {
	if len(args) < 3 {
		return 0
	}
	n, _ := strconv.Atoi(args[2])
	return int32(n)
}

func (c client) run(command string, args []string) (result string, err error) {
	switch command {
	case "get":
		result, err = c.get(args[0])
	case "multi":
		var values map[string]string
		values, err = c.multi(args)
		var all []string
		for k, v := range values {
			all = append(all, k+"="+show(v))
		}
		sort.Strings(all)
		result = "{" + strings.Join(all, ",") + "}"
	case "set", "add", "replace", "append":
		if command == "append" && c.noAppend {
			return "unsupported", nil
		}
		value := args[1]
		if n, ok := strings.CutPrefix(value, "*"); ok {
			size, _ := strconv.Atoi(n)
			value = strings.Repeat("x", size)
		}
		err = c.store(command, args[0], value, expiry(args))
		result = "ok"
	case "gets":
		result, err = c.gets(args[0])
	case "cas":
		result, err = "ok", c.cas(args[0], args[1])
	case "delete":
		result, err = "ok", c.delete(args[0])
	case "incr":
		by, _ := strconv.ParseUint(args[1], 10, 64)
		var n uint64
		n, err = c.incr(args[0], by)
		result = strconv.FormatUint(n, 10)
	case "touch":
		n, _ := strconv.Atoi(args[1])
		result, err = "ok", c.touch(args[0], int32(n))
	case "flush":
		result, err = "ok", c.flush()
	case "version":
		result, err = "ok", c.ping()
	default:
		return "unsupported", nil
	}
	return show(result), err
}

func main() {
	c := map[string]func(string) client{"gomemcache": bradfitz, "grafana": fork}[os.Args[1]](os.Args[2] + ":" +
		os.Args[3])
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		result, err := c.run(words[0], words[1:])
		if err != nil {
			result = "error: " + strings.ReplaceAll(err.Error(), "\n", " ") + " " + strings.TrimPrefix(result, "ok")
		}
		fmt.Println(strings.TrimSpace(result))
	}
}
