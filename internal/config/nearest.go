package config

import "strings"

// minPrefix is how much of a candidate must be there to know it by.
const minPrefix = 3

// Nearest returns the candidate that name was most likely meant to be, or ""
// when none is near: at most a third of its letters differ, or it is the first
// part of a candidate, or the last of a dotted one ("ceiling" for
// "slots.ceiling").
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", len(name)/3+1
	for _, c := range candidates {
		if strings.HasSuffix(c, "."+name) {
			return c
		}
		if best == "" && len(name) >= minPrefix && strings.HasPrefix(c, name) {
			best = c
		}
		if d := distance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}

	return best
}

// didYouMean is the advice that names the nearest candidate.
func didYouMean(name string, candidates []string, otherwise string) string {
	if n := Nearest(name, candidates); n != "" {
		return "did you mean " + n + "?"
	}

	return otherwise
}

// distance is the Levenshtein distance: how many letters must be added, removed
// or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}

	return row[len(b)]
}
