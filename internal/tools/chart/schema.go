package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/config"
)

// schema is a JSON schema.
type schema map[string]any

// schemaOf returns a chart's values.schema.json: it accepts exactly the keys of values.yaml, each with the type of its
// default unless a refinement says otherwise. It adds the paths of the refinements that it uses to used.
func schemaOf(chart string, values []*value, refinements map[string]schema, used map[string]bool) ([]byte, error) {
	root := object(values, refinements, used)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Values of the chart " + chart
	properties := root["properties"].(map[string]any)
	if global, ok := properties["global"].(schema); ok {
		global["additionalProperties"] = true // other charts' values
	}
	if memcached, ok := properties["memcached"].(schema); ok {
		of := memcached["properties"].(map[string]any)
		pool := map[string]any{
			"name": schema{"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$"},
		}
		for key := range of {
			if key != "enabled" && key != "watch" && key != "pools" {
				pool[key] = schema{"$ref": "#/properties/memcached/properties/" + key}
			}
		}
		of["pools"].(schema)["items"] = closed(pool, "name")
	}
	if tests, ok := properties["tests"].(schema); ok {
		// The templates say where the values of an earlier chart are now.
		properties["loadgen"], tests["properties"].(map[string]any)["load"] = schema{}, schema{}
	}
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

// unused returns an error that names a refinement of a value that no chart has.
func unused(refinements map[string]schema, used map[string]bool) error {
	for path := range refinements {
		if !used[path] {
			return fmt.Errorf("refine.go has %s, which is not in values.yaml", path)
		}
	}
	return nil
}

// object returns the schema of a mapping with exactly these keys.
func object(values []*value, refinements map[string]schema, used map[string]bool) schema {
	properties := map[string]any{}
	for _, v := range values {
		var s schema
		if v.Children != nil {
			s = object(v.Children, refinements, used)
		} else {
			s = typeOf(v.Default)
			if refined, ok := refinements[v.Path]; ok {
				s = maps.Clone(refined) // several values share it
				used[v.Path] = true
			}
			s["description"] = v.Comment
		}
		properties[v.Key] = s
	}
	return closed(properties)
}

// closed returns the schema of a mapping without other keys.
func closed(properties map[string]any, required ...string) schema {
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// typeOf returns the schema for the type of a default.
func typeOf(node *yaml.Node) schema {
	switch {
	case node.Kind == yaml.MappingNode:
		return schema{"type": "object"}
	case node.Kind == yaml.SequenceNode:
		return schema{"type": "array"}
	case node.Tag == "!!bool":
		return schema{"type": "boolean"}
	case node.Tag == "!!int":
		return schema{"type": "integer", "minimum": 0}
	default:
		return schema{"type": "string"}
	}
}

// managed are the options that the chart derives from other values.
var managed = []string{
	"listen", "listen-port", "admin", "config", "servers", "drain-timeout", "tls-cert", "tls-key", "tls-client-ca",
	"auth-file",
	"server-tls", "server-tls-ca", "server-tls-cert", "server-tls-key", "server-tls-name", "server-auth-file",
}

// options returns the schema of the value config.
func options() schema {
	properties := map[string]any{}
	for _, o := range config.Options {
		if slices.Contains(managed, o.Name) || o.PoolOnly() {
			continue
		}
		s := schema(o.Schema())
		s["description"] = o.Help + "; accepted: " + o.Accepts() + "; default: " + o.Default
		properties[o.Name] = s
	}
	// The chart's pools have no servers here: the templates know which pools those are.
	delete(properties["pools"].(schema)["additionalProperties"].(map[string]any), "required")
	return closed(properties)
}
