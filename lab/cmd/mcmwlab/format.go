package main

import (
	"fmt"
	"io"

	"mcmw/lab/table"
)

// jsonFormat is the machine-readable format of commands that write tables.
const jsonFormat = "json"

// formatHelp is the help of the flag --format of commands that write tables or JSON.
const formatHelp = "format of the output: text, markdown, latex, html or json"

// checkFormat checks the flag --format of commands that write tables or JSON.
func checkFormat(name string) error {
	if _, err := table.ParseFormat(name); err != nil && name != jsonFormat {
		return usageError{fmt.Errorf("--format: %w, or %s", err, jsonFormat)}
	}
	return nil
}

// tableFormat returns the format of the flag --format of commands that only write tables.
func tableFormat(name string) (table.Format, error) {
	f, err := table.ParseFormat(name)
	if err != nil {
		return f, usageError{fmt.Errorf("--format: %w", err)}
	}
	return f, nil
}

// writeTables writes tables in a format or, if it is JSON, the object that the tables show.
func writeTables(out io.Writer, format string, object any, tables ...table.Table) error {
	if err := checkFormat(format); err != nil {
		return err
	}
	if format == jsonFormat {
		return writeJSON("-", out, object)
	}
	for _, t := range tables {
		if err := t.Write(out, table.Format(format)); err != nil {
			return err
		}
	}
	return nil
}
