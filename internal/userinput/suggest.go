package userinput

import "strings"

// leastPart is the minimum length, in bytes, of a part of a name that Suggest takes to mean the name.
const leastPart = 4

// Suggest returns the candidate that given most likely means: one of which it is a typo, or one that contains it; "" if
// there is none.
func Suggest(given string, candidates []string) string {
	if c := Nearest(given, candidates); c != "" {
		return c
	}
	given = plain(given)
	for _, c := range candidates {
		if len(given) >= leastPart && strings.Contains(plain(c), given) {
			return c
		}
	}
	return ""
}

// Nearest returns the candidate of which given is most likely a typo, with at most one edit per three letters; "" if
// there is none.
func Nearest(given string, candidates []string) string {
	given = plain(given)
	best, least := "", len(given)/3+1
	for _, c := range candidates {
		if d := distance(given, plain(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// DidYouMean returns Suggest's result as a question at the end of a sentence; "" if there is none.
func DidYouMean(given string, candidates []string) string {
	if s := Suggest(given, candidates); s != "" {
		return "; did you mean " + s + "?"
	}
	return ""
}

// plain maps different spellings of a name to the same one: max_value, maxValue, MAX-VALUE.
func plain(name string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
}

// distance returns the minimum number of edits that turn a into b. An edit inserts, deletes or replaces a byte, or
// swaps two neighbouring bytes.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
