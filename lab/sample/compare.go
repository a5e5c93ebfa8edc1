package sample

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Difference is the estimated difference of the means of two populations, second minus first, from a sample of each.
type Difference struct {
	Difference float64
	Interval   Interval // of the difference
	P          float64  // probability of a difference at least this large if the means are equal; NaN if unknown
	Freedom    float64  // degrees of freedom
}

// Welch compares the means of two samples from normal distributions with possibly different variances:
//
//	x2 - x1 +- t[1-a/2; v] S, S^2 = s1^2/n1 + s2^2/n2
//	v = S^4 / ((s1^2/n1)^2/(n1-1) + (s2^2/n2)^2/(n2-1))
//
// B. L. Welch, "The generalization of Student's problem when several different population variances are involved",
// Biometrika 34 (1947). (Jain, section 13.4.2, uses n+1 instead of n-1 and subtracts 2.) With fewer than two values in
// a sample the interval is unbounded.
func Welch(first, second Moments, confidence float64) Difference {
	d := Difference{Difference: second.Mean - first.Mean, Interval: unknown, P: math.NaN(), Freedom: math.NaN()}
	if first.N < 2 || second.N < 2 {
		return d
	}
	v1, v2 := first.Variance()/first.N, second.Variance()/second.N
	s := math.Sqrt(v1 + v2)
	if s == 0 {
		// Without spread any difference is certain.
		d.Interval, d.Freedom, d.P = Interval{d.Difference, d.Difference}, first.N+second.N-2, 0
		if d.Difference == 0 {
			d.P = 1
		}
		return d
	}
	// Ratios to the sum, so that tiny variances don't underflow.
	r1, r2 := v1/(v1+v2), v2/(v1+v2)
	d.Freedom = 1 / (r1*r1/(first.N-1) + r2*r2/(second.N-1))
	d.Interval = Around(d.Difference, StudentQuantile((1+confidence)/2, d.Freedom)*s)
	d.P = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: d.Freedom}.Survival(math.Abs(d.Difference)/s)
	return d
}

// Holm returns the adjusted probabilities of several comparisons. If there is no difference anywhere, the chance that
// any of them is below a is at most a, even if the comparisons depend on each other. The i-th smallest of m is
// multiplied by m-i+1, and none becomes less than the one before it. S. Holm, "A simple sequentially rejective multiple
// test procedure", Scandinavian Journal of Statistics 6 (1979). An unknown probability (NaN) stays NaN and is not
// counted in m.
func Holm(p []float64) []float64 {
	adjusted := slices.Clone(p)
	var order []int
	for i := range p {
		if !math.IsNaN(p[i]) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	least := 0.0
	for i, at := range order {
		least = max(least, min(1, float64(len(order)-i)*p[at]))
		adjusted[at] = least
	}
	return adjusted
}

// EffectSize returns Hedges' g: the difference of the means of two samples, second minus first, in standard deviations:
//
//	g = J (x2 - x1)/s, s^2 = (M2_1 + M2_2)/(n1+n2-2), J = 1 - 3/(4(n1+n2-2) - 1)
//
// L. V. Hedges, "Distribution theory for Glass's estimator of effect size and related estimators", Journal of
// Educational Statistics 6 (1981). J corrects the bias of small samples. The result is NaN if a sample has fewer than
// two values, and infinite for means that differ without any spread.
func EffectSize(first, second Moments) float64 {
	if first.N < 2 || second.N < 2 {
		return math.NaN()
	}
	freedom := first.N + second.N - 2
	d := second.Mean - first.Mean
	if d == 0 {
		return 0
	}
	return (1 - 3/(4*freedom-1)) * d / math.Sqrt((first.M2+second.M2)/freedom)
}

// exactRanks is the largest number of values, in both samples together, for which MannWhitney counts all orders.
const exactRanks = 60

// MannWhitney compares two samples by ranks. Its hypothesis is that both have the same distribution, whatever that is.
// u is the number of pairs in which the second sample's value is the larger one; ties count half. p is the probability
// of a u at least this far from its mean. H. B. Mann, D. R. Whitney, "On a test of whether one of two random variables
// is stochastically larger than the other", Annals of Mathematical Statistics 18 (1947).
//
// For at most exactRanks values p is exact, also with ties: it counts all assignments of the ranks to the samples. For
// more values it is the normal approximation with corrections for ties and continuity. With few values p cannot be
// small: it is at least 0.1 for 3 and 3 values, and 0.029 for 4 and 4. It is NaN if a sample is empty.
func MannWhitney(first, second []float64) (u, p float64) {
	n1, n2 := len(first), len(second)
	if n1 == 0 || n2 == 0 {
		return math.NaN(), math.NaN()
	}
	all := slices.Concat(first, second)
	slices.Sort(all)
	// Twice the mean ranks, which are whole numbers.
	ranks := make([]int, len(all))
	twice := make(map[float64]int, len(all))
	ties := 0.0 // sum of t^3 - t
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j] == all[i] {
			j++
		}
		for k := i; k < j; k++ {
			ranks[k] = i + 1 + j
		}
		twice[all[i]] = i + 1 + j
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	sum := 0
	for _, x := range second {
		sum += twice[x]
	}
	u = float64(sum)/2 - float64(n2*(n2+1))/2
	mean := float64(n1*n2) / 2
	if len(all) <= exactRanks {
		return u, exactRankSum(ranks, n2, sum)
	}
	n := float64(n1 + n2)
	deviation := math.Sqrt(float64(n1*n2) / 12 * (n + 1 - ties/(n*(n-1))))
	if deviation == 0 {
		return u, 1
	}
	z := max(math.Abs(u-mean)-0.5, 0) / deviation
	return u, 2 * distuv.UnitNormal.Survival(z)
}

// exactRankSum returns the probability that the sum of k of the ranks is at least as far from its mean as sum is. ranks
// and sum are twice the real ones, so that they are whole.
func exactRankSum(ranks []int, k, sum int) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	// ways[c][s] is the number of choices of c ranks with the sum s.
	ways := make([][]float64, k+1)
	for c := range ways {
		ways[c] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for c := k; c >= 1; c-- {
			for s := total; s >= r; s-- {
				ways[c][s] += ways[c-1][s-r]
			}
		}
	}
	// The distances from the mean k total/n are multiplied by n, so that they are whole.
	n := len(ranks)
	distance := func(s int) int { return max(n*s-k*total, k*total-n*s) }
	far, all := 0.0, 0.0
	for s, w := range ways[k] {
		all += w
		if distance(s) >= distance(sum) {
			far += w
		}
	}
	return far / all
}
