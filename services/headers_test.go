package services

import "testing"

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"":                         false,
		"identity":                 false,
		"br":                       false,
		"gzip":                     true,
		"GZIP":                     true,
		"deflate, gzip;q=0.5":      true,
		"gzip;q=0":                 false,
		"gzip; q=0.000":            false,
		"gzip ; q = 0.1":           true,
		"gzip;q=abc":               false,
		"*":                        true,
		"*;q=0":                    false,
		"*, gzip;q=0":              false,
		"gzip;q=1, *;q=0":          true,
		"x-gzip-not, notgzip, zip": false,
	} {
		if got := AcceptsGzip([]string{header}); got != want {
			t.Errorf("Accept-Encoding %q: %v, want %v", header, got, want)
		}
	}
	if !AcceptsGzip([]string{"br", "gzip"}) {
		t.Error("the second of two headers is not read")
	}
}
