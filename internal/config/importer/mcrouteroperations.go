package importer

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The routes that choose by the command.
var operationRoutes = []string{"OperationSelectorRoute", "PrefixPolicyRoute"}

// readCommands are the commands of operation_policies that read; the others write. With two pools, plainReads go to one
// of them and all other commands to the other.
var (
	readCommands = []string{"get", "gets", "gat", "gats", "metaget", "lease-get"}
	plainReads   = []string{"get", "metaget", "lease-get"}
	// changing are the commands that, with two pools, a default_policy stands for unless they have their own policies.
	changing = []string{
		"set", "add", "replace", "append", "prepend", "cas", "incr", "decr", "touch", "delete", "gets",
		"gat", "gats",
	}
)

// operation is a command with its route.
type operation struct {
	command *yaml.Node
	use     usage
}

// operations translates a choice by the command: one route for all reads and one for all writes, to one pool or to two.
func (m *mcrouter) operations(n *yaml.Node, name string, arguments []field) (w way, ok bool) {
	var byDefault *usage
	var chosen []operation
	given := m.known(arguments, "default_policy", "operation_policies")
	ok = true
	if f := given["default_policy"]; f.key != nil {
		use, valid := m.leaf(f.value)
		byDefault, ok = &use, valid
	}
	for _, command := range m.fieldsOf(given["operation_policies"]) {
		use, valid := m.leaf(command.value)
		chosen, ok = append(chosen, operation{command.key, use}), ok && valid
	}
	if !ok {
		return way{}, false
	}
	// first returns the route of the first command that is one of commands or, if among is false, that is none of them.
	first := func(among bool, commands []string) *usage {
		if at := slices.IndexFunc(chosen,
			func(o operation) bool { return slices.Contains(commands, o.command.Value) == among }); at >= 0 {
			return &chosen[at].use
		}
		return nil
	}
	writes, reads := cmp.Or(first(false, readCommands), byDefault),
		cmp.Or(first(true, plainReads), byDefault, first(true, readCommands))
	apart := writes != nil && reads != nil && !slices.Equal(writes.pools, reads.pools)
	for _, o := range chosen {
		want, command := writes, o.command.Value
		if slices.Contains(plainReads, command) || !apart && slices.Contains(readCommands, command) {
			want = reads
		}
		switch {
		case want == nil || want.same(o.use):
			continue
		case apart && want == writes && slices.Contains(readCommands, command):
			m.refuse(o.command,
				"%s: goes to pool %s, but it returns the cas or changes the item, so mcmw sends it to the pool of "+
					"set, %s; accepted: the route of set",
				command, strings.Join(o.use.pools, ", "), strings.Join(writes.pools, ", "))
		default:
			m.refuse(o.command,
				"%s: has %s of %s, but line %d has %s of %s; accepted: one route for all commands that write, and "+
					"one for all that read", command,
				o.use.handle, strings.Join(o.use.pools, ", "), want.at.Line, want.handle,
				strings.Join(want.pools, ", "))
		}
		return way{}, false
	}
	for i, use := range []*usage{writes, reads} {
		if use == nil {
			return way{}, m.refuse(n, "%s: no route for %s; accepted: a route for it, or a default_policy", name,
				[]string{"set", "get"}[i])
		}
	}
	deletes, uses := true, []usage{}
	if byDefault != nil {
		uses = append(uses, *byDefault)
		deletes = byDefault.follows == nil
	}
	for _, o := range chosen {
		uses = append(uses, o.use)
		deletes = deletes && (o.use.follows == nil || o.command.Value == "delete")
	}
	if apart {
		w, ok = m.apart(*writes, *reads, byDefault, chosen)
	} else {
		w, ok = m.together(*writes, *reads, byDefault)
	}
	if followed := w.followed(deletes, uses...); followed.follows != nil {
		w = followed
	}
	return w, ok
}

// apart returns the way of keys that are read in one pool, while all other commands go to another.
func (m *mcrouter) apart(writes, reads usage, byDefault *usage, chosen []operation) (w way, ok bool) {
	if byDefault != nil && !byDefault.same(writes) {
		left := slices.DeleteFunc(slices.Clone(changing), func(command string) bool {
			return slices.ContainsFunc(chosen, func(o operation) bool { return o.command.Value == command })
		})
		if len(left) > 0 {
			return way{}, m.refuse(byDefault.at,
				"default_policy: has %s for %s of %s, but line %d has %s of %s for writes; accepted: the same route "+
					"for all but %s",
				byDefault.handle, strings.Join(left, ", "), strings.Join(byDefault.pools, ", "), writes.at.Line,
				writes.handle, strings.Join(writes.pools, ", "), plainReads[0])
		}
	}
	if _, toAll := writesToAll[writes.handle]; !toAll && !writes.sharded() {
		return way{}, m.refuse(writes.at, "%s: writes to only one of the servers; accepted: %s, %s", writes.handle,
			anyOf(writesToAll), poolRoute)
	}
	return way{writes: writes, reads: writes, from: &way{writes: reads, reads: reads}}, true
}

// together returns the way of keys that are read and written in one pool.
func (m *mcrouter) together(writes, reads usage, byDefault *usage) (w way, ok bool) {
	_, toAll := writesToAll[writes.handle]
	_, ofAny := readsOfAny[reads.handle]
	switch {
	case byDefault != nil && !byDefault.same(writes) && !byDefault.same(reads):
		m.refuse(byDefault.at,
			"default_policy: neither the route of set nor that of get; accepted: one route for all commands that "+
				"write, and one for all that read")
	case !toAll && !writes.sharded():
		m.refuse(writes.at, "%s: writes to only one of the servers that are read; accepted: %s", writes.handle,
			anyOf(writesToAll))
	case writes.sharded() && !reads.sharded():
		m.refuse(reads.at, "%s: reads servers that set does not write to; accepted: %s", reads.handle, poolRoute)
	case toAll && !ofAny && !reads.sharded() && !reads.same(writes):
		m.refuse(reads.at, "%s: accepted for get: %s, or %s", reads.handle, anyOf(readsOfAny), poolRoute)
	default:
		return way{writes: writes, reads: reads}, true
	}
	return way{}, false
}
