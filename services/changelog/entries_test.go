package changelog_test

import (
	"strings"
	"testing"

	"tidings/services/changelog"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// testPayload is the payload of the entries of these tests.
type testPayload struct {
	Name string
	Gone bool `json:",omitempty"`
}

// Every node reads the changes from the log as they were written.
func TestAChangeIsReadAsItWasWritten(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		s := sqltest.Open(t, sql.Config{URL: url})
		written := []testPayload{{Name: "ночь"}, {Name: "b", Gone: true}}
		for i, one := range written {
			err := s.Write(ctx, func(tx *sql.Tx) error {
				version, err := changelog.Append(ctx, tx, "kind", one.Name, one)
				if version != uint64(i+1) {
					t.Errorf("the version is %d, want %d", version, i+1)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		entries, err := changelog.LogAfter(ctx, s, "kind", 0, 10)
		if err != nil || len(entries) != len(written) {
			t.Fatalf("%v, %v", entries, err)
		}
		for i, entry := range entries {
			if read, err := changelog.Parse[testPayload](entry); err != nil || read != written[i] || entry.Key != written[i].Name {
				t.Errorf("read %+v under %q, %v; want %+v", read, entry.Key, err, written[i])
			}
		}
	})
}

func TestAMalformedEntryIsAnError(t *testing.T) {
	_, err := changelog.Parse[testPayload](changelog.Entry{Kind: "kind", Version: 3, Payload: []byte("{")})
	if err == nil || !strings.Contains(err.Error(), "entry 3 of the log kind") {
		t.Errorf("a broken entry was read: %v", err)
	}
}
