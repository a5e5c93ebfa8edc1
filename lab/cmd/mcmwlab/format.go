package main

import (
	"fmt"
	"io"

	"mcmw/lab/table"
)

// The help of the flags --format, and --out of commands whose page has figures.
var (
	formatHelp  = "format of the output: " + table.Names()
	figuresHelp = "write the figures as SVG to this directory, too"
)

// checkFormat checks the flag --format.
func checkFormat(name string) error {
	if _, err := table.ParseFormat(name); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	return nil
}

// writePage writes a page in a format, which has been checked, and its figures to a directory unless that is "".
func writePage(p table.Page, format, dir string, w io.Writer) error {
	if dir != "" {
		if err := p.Save(dir); err != nil {
			return err
		}
	}
	return p.Write(w, table.Format(format))
}
