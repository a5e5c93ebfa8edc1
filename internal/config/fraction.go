package config

import (
	"errors"
	"strconv"
	"strings"
)

// fraction is one in every N, written 1/N; N is 0 for none.
type fraction struct {
	field func(*Config) *int
	max   int
}

const fractionOff = "off"

func (k fraction) placeholder() string { return "1/N" }
func (k fraction) accepts() string     { return "1/1 to 1/" + strconv.Itoa(k.max) + ", or " + fractionOff }

func (k fraction) set(c *Config, v given) error {
	if v.text == fractionOff {
		*k.field(c) = 0
		return nil
	}
	digits, ok := strings.CutPrefix(v.text, "1/")
	n, err := strconv.Atoi(digits)
	switch {
	case !ok || (err != nil && !errors.Is(err, strconv.ErrRange)):
		return errors.New("is not of the form 1/N")
	case err != nil || n < 1 || n > k.max:
		return errors.New("is out of range")
	}
	*k.field(c) = n
	return nil
}

func (k fraction) get(c *Config) any {
	if n := *k.field(c); n > 0 {
		return "1/" + strconv.Itoa(n)
	}
	return fractionOff
}
