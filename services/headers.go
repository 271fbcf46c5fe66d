package services

import (
	"strconv"
	"strings"
)

// AcceptsGzip reports whether the values of Accept-Encoding accept gzip, by RFC 9110: gzip, by its name or else by *, is accepted
// unless its weight is 0.
func AcceptsGzip(values []string) bool {
	accepted := false
	for _, item := range SplitListHeader(values) {
		coding, weight, _ := strings.Cut(item, ";")
		named := strings.EqualFold(strings.TrimSpace(coding), "gzip")
		if !named && strings.TrimSpace(coding) != "*" {
			continue
		}
		accepted = !zeroWeight(weight)
		// A name is more specific than *, wherever it stands in the list.
		if named {
			return accepted
		}
	}
	return accepted
}

// zeroWeight reports whether a parameter such as "q=0.0" rules its coding out. A weight that cannot be parsed rules it out too.
func zeroWeight(parameter string) bool {
	_, value, found := strings.Cut(strings.ReplaceAll(parameter, " ", ""), "q=")
	if !found {
		return false
	}
	q, err := strconv.ParseFloat(value, 64)
	return err != nil || q == 0
}

// SplitListHeader splits the values of a header that is a list. No item may have a quoted comma in it.
func SplitListHeader(values []string) []string {
	list := strings.Split(strings.Join(values, ","), ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}
