package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (d *decoder) design(e *Experiment, f *file) {
	base := Values{}
	for _, s := range Settings {
		base[s.Name] = s.Default
	}
	maps.Copy(base, f.constants)
	for _, factor := range f.factors {
		if n, ok := f.constantsAt[factor.Name]; ok {
			d.problem(n, "constants."+factor.Name, "%s is a factor, too; expected only one of them", factor.Name)
		}
	}
	switch {
	case len(f.points) > 0 && len(f.factors) > 0:
		d.problem(f.factorsAt, "factors", "given together with points; expected one of them")
	case f.fractionAt != nil && len(f.factors) == 0:
		d.problem(f.fractionAt, "fraction", "given without factors")
	case len(f.points) > 0:
		for i, values := range f.points {
			point := maps.Clone(base)
			maps.Copy(point, values)
			if err := f.complete(point, func(name string) bool { _, given := values[name]; return given }); err != nil {
				d.problem(f.pointsAt[i], "points", "%s", err)
			}
			if slices.ContainsFunc(e.Points, func(p Point) bool { return maps.Equal(p.Values, point) }) {
				d.problem(f.pointsAt[i], "points", "the point occurs twice")
			}
			e.Points = append(e.Points, Point{Number: i, Values: point})
			if err := point.check(); err != nil {
				d.problem(f.pointsAt[i], "points", "%s", oneLine(err))
			}
		}
	default:
		e.Factors = f.factors
		combinations, err := combine(f.factors, f.fraction)
		if err != nil {
			at, key := f.fractionAt, "fraction"
			if at == nil {
				at, key = f.factorsAt, "factors"
			}
			d.problem(at, key, "%s", err)
			return
		}
		for i, levels := range combinations {
			point := maps.Clone(base)
			for j, level := range levels {
				point[f.factors[j].Name] = level
			}
			if err := f.complete(point, func(name string) bool {
				return slices.ContainsFunc(f.factors, func(f Factor) bool { return f.Name == name })
			}); err != nil {
				d.problem(f.factorsAt, "factors", "%s", err)
				return
			}
			e.Points = append(e.Points, Point{Number: i, Values: point})
		}
	}
	e.setVaried()
	if err := e.checkSystems(); err != nil {
		d.problem(cmp.Or(f.factorsAt, f.constantsAt[System]), "system", "%s", err)
	}
	if len(f.points) > 0 {
		return
	}
	for _, p := range e.Points {
		if err := p.Values.check(); err != nil {
			d.problem(f.factorsAt, "factors", "%s: %s", p, oneLine(err))
		}
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// combine returns the combinations of levels of a full factorial design, the first factor changing slowest, or, with
// products, of a fractional design.
//
// The level of c, a product of a and b, is defined by theirs: with -1 for the first level of a factor and +1 for
// the second, x_c = x_a x_b. With p products a design of k factors has 2^(k-p) points (Jain, chapter 19).
func combine(factors, fraction []Factor) ([][]string, error) {
	products, err := productsOf(factors, fraction)
	if err != nil {
		return nil, err
	}
	total := 1
	for i, f := range factors {
		if products[i] != nil {
			continue
		}
		if total *= len(f.Levels); total > maxPoints {
			return nil, fmt.Errorf("more than %d points; expected fewer levels", maxPoints)
		}
	}
	combinations := make([][]string, total)
	for n := range combinations {
		index := make([]int, len(factors))
		rest := n
		for i := len(factors) - 1; i >= 0; i-- {
			if products[i] == nil {
				index[i] = rest % len(factors[i].Levels)
				rest /= len(factors[i].Levels)
			}
		}
		for i, sources := range products {
			if sources == nil {
				continue
			}
			// The product of signs is +1 if an even number of them is -1.
			index[i] = 1
			for _, s := range sources {
				index[i] ^= 1 - index[s]
			}
		}
		levels := make([]string, len(factors))
		for i, f := range factors {
			levels[i] = f.Levels[index[i]]
		}
		combinations[n] = levels
	}
	return combinations, nil
}

// productsOf returns, for every factor, the indices of the factors whose product it is; nil for the others.
func productsOf(factors, fraction []Factor) ([][]int, error) {
	products := make([][]int, len(factors))
	find := func(name string) int {
		return slices.IndexFunc(factors, func(f Factor) bool { return f.Name == name })
	}
	for _, product := range fraction {
		at := find(product.Name)
		if at < 0 {
			return nil,
				fmt.Errorf("%s is not a factor; expected some of the factors, each with those whose product it is",
					product.Name)
		}
		for _, name := range product.Levels {
			source := find(name)
			if source < 0 || source == at || slices.Contains(products[at], source) {
				return nil, fmt.Errorf("%s: %.60q; expected a product of other factors, each once", product.Name, name)
			}
			products[at] = append(products[at], source)
		}
	}
	for i, product := range products {
		for _, source := range product {
			if products[source] != nil {
				return nil, fmt.Errorf("%s is a product of %s, which itself is one; expected factors that are not",
					factors[i].Name, factors[source].Name)
			}
		}
	}
	if len(fraction) > 0 {
		for _, f := range factors {
			if len(f.Levels) != 2 {
				return nil, fmt.Errorf("%s has %d levels; expected two levels of every factor", f.Name, len(f.Levels))
			}
		}
	}
	return products, nil
}
