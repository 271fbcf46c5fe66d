package social

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tidings/services"
	"tidings/services/people"
)

// latestAllowedID is the latest time that a row of these tests may name.
var latestAllowedID = services.SortableIDAt(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))

// Good rows of a file of follows are parsed into two keys and a time.
func TestRows(t *testing.T) {
	for line, want := range map[string]string{
		"alice,bob":                           "alice>bob",
		" alice ,\tbob ":                      "alice>bob",
		"1,2":                                 "1>2",
		`"alice","bob"`:                       "alice>bob",
		`"alice", "bob"`:                      "alice>bob",
		"alice,bob,":                          "alice>bob",
		"alice,bob,2026-01-31T09:30:00Z":      "alice>bob@2026-01-31T09:30:00Z",
		`alice,bob,"2026-01-31T10:30:00.5Z"`:  "alice>bob@2026-01-31T10:30:00.5Z",
		"alice,bob,2026-01-31T10:30:00+01:00": "alice>bob@2026-01-31T09:30:00Z",
		"alice,Alice":                         "alice>Alice",
		strings.Repeat("k", 64) + ",b":        strings.Repeat("k", 64) + ">b",
	} {
		table := people.NewKeyTable("")
		got, err := parseRow([]byte(line), table, latestAllowedID)
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		text := table.UnresolvedKeys()[got.follower] + ">" + table.UnresolvedKeys()[got.followee]
		if got.since != 0 {
			text += "@" + got.since.Time().Format(time.RFC3339Nano)
		}
		if text != want {
			t.Errorf("%q: got %s, want %s", line, text, want)
		}
	}
}

// Bad rows of a file of follows are refused with a reason, and make no users.
func TestBadRows(t *testing.T) {
	for line, word := range map[string]string{
		"alice":                             "2 or 3 columns are needed, follower,followee,since; got 1",
		"alice;bob":                         "got 1",
		"alice\tbob":                        "got 1",
		"alice,bob,,x":                      "got 4",
		"alice,":                            "a key is empty",
		",bob":                              "a key is empty",
		`"",bob`:                            "a key is empty",
		"alice,alice":                       `"alice" cannot follow themselves`,
		"al\u200bice,bob":                   `user key "al\u200bice"`,
		"alice,b\u0301\u0323b":              "normal form C",
		"alice,\xff\xfe":                    "only printable",
		"alice,bob\x00":                     "only printable",
		strings.Repeat("k", 129) + ",b":     "1 to 128 characters, got 129",
		`"alice,bob`:                        "broken quotes",
		`"alice"x,bob`:                      "broken quotes",
		`al"ice,bob`:                        "broken quotes",
		"alice,bob,yesterday":               `since is "yesterday"`,
		"alice,bob,2026-01-31":              "a time like 2026-01-31T09:30:00Z",
		"alice,bob,2026-02-30T00:00:00Z":    "a time like",
		"alice,bob,2026-03-01T00:00:00Z":    "in the future",
		"alice,bob,1969-07-20T20:17:00Z":    "before 1970",
		"a," + strings.Repeat("b", 5_000):   "longer than 4096 bytes",
		strings.Repeat(`"`, 4_000) + ",bob": "1 to 128 characters",
	} {
		table := people.NewKeyTable("")
		_, err := parseRow([]byte(line), table, latestAllowedID)
		if services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), word) {
			t.Errorf("%.40q: got %v, want %q", line, err, word)
		}
		if len(table.UnresolvedKeys()) != 0 {
			t.Errorf("%.40q: a bad row made the users %v", line, table.UnresolvedKeys())
		}
	}
}

// With a prefix the limit applies to the whole key, and errors show the whole key.
func TestPrefix(t *testing.T) {
	table := people.NewKeyTable("team.")
	if _, err := parseRow([]byte("1,2"), table, latestAllowedID); err != nil || table.UnresolvedKeys()[0] != "team.1" || table.UnresolvedKeys()[1] != "team.2" {
		t.Errorf("%v %v", table.UnresolvedKeys(), err)
	}
	if _, err := parseRow([]byte("1,"+strings.Repeat("k", 124)), table, latestAllowedID); err == nil || !strings.Contains(err.Error(), "got 129") {
		t.Errorf("a key that the prefix makes too long: %v", err)
	}
	if _, err := parseRow([]byte("7,7"), table, latestAllowedID); err == nil || !strings.Contains(err.Error(), `"team.7" cannot follow themselves`) {
		t.Errorf("a follow of oneself: %v", err)
	}
}

// A first line that names the columns is a header. It is refused if it names the followee first.
func TestHeaders(t *testing.T) {
	const header, row, refused = "a header", "a row", "refused"
	for line, want := range map[string]string{
		"follower,followee": header, "Follower, Followee, Since": header, "from,to": header, "id_1,id_2": header, `"source","target"`: header,
		"user_id,friend_id": header, "user,follows": header, "follower_id,user_id": header, "follower,user": header,
		"alice,bob": row, "1,2": row, "follower": row, "": row, `"from,to`: row, "from,alice": row, "alice,to": row, "who,whom": row,
		"followee,follower": refused, "to,from": refused, "Target, Source": refused, "user_id,follower_id": refused, "user,follower": refused,
		"friend_id,user_id": refused, "followed,user": refused, "id_2,id_1": refused, "from,source": refused, "to,target": refused, "user,user_id": refused,
		"followee,follower,since": refused,
	} {
		is, err := isHeader([]byte(line))
		got := map[bool]string{true: header, false: row}[is]
		if err != nil {
			got = refused
			first, _, _ := strings.Cut(strings.ToLower(line), ",")
			if services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), first) {
				t.Errorf("%q: %v", line, err)
			}
		}
		if got != want {
			t.Errorf("%q is %s, want %s", line, got, want)
		}
	}
}

// Any line becomes a row of two different valid keys, or a readable error.
func FuzzRow(f *testing.F) {
	for _, line := range []string{"alice,bob", `"a","b",2026-01-31T09:30:00Z`, `"`, "a,b,c", ",,", "\x00,\xff", `a"b,c`, "1,1"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		table := people.NewKeyTable("")
		got, err := parseRow([]byte(line), table, latestAllowedID)
		if err != nil {
			if services.CodeOf(err) != services.Invalid || !utf8.ValidString(err.Error()) || strings.Contains(err.Error(), "\n") || len(table.UnresolvedKeys()) != 0 {
				t.Fatalf("%q: %q, keys %q", line, err, table.UnresolvedKeys())
			}
			return
		}
		for _, key := range table.UnresolvedKeys() {
			if services.CheckUserKey(key) != nil {
				t.Fatalf("%q made the key %q", line, key)
			}
		}
		if got.follower == got.followee || len(table.UnresolvedKeys()) != 2 || got.since > latestAllowedID {
			t.Fatalf("%q: %+v, keys %q", line, got, table.UnresolvedKeys())
		}
	})
}
