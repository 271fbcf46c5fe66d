package importer

import (
	"testing"
	"time"
)

func TestReportIsReadable(t *testing.T) {
	for want, report := range map[string]Report{
		"289,003 rows: 578,006 follows are new, 0 existed already; 15.2 s": {Kind: "follows", GoodRows: 289_003, NewItems: 578_006, Took: 15_240 * time.Millisecond},
		"after line 1,000: 7 rows: 3 posts are new, 4 existed already; 1,234,567 bad lines are in f.bad; 0.0 s": {
			Kind: "posts", ResumedAfter: 1000, GoodRows: 7, NewItems: 3, SkippedRows: 4, BadLines: 1_234_567, BadFile: "f.bad"},
		"3 rows: 2 messages are new, to 1,005 recipients; 0.1 s": {Kind: "messages", GoodRows: 3, NewItems: 2, Recipients: 1_005, CountsRecipients: true, Took: 100 * time.Millisecond},
	} {
		if got := report.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestBlankLines(t *testing.T) {
	for line, want := range map[string]bool{"": true, " \t": true, "# a remark": true, "  #": true, ",": false, "a,b # c": false} {
		if got := IsBlank([]byte(line)); got != want {
			t.Errorf("%q is blank: %t", line, got)
		}
	}
}
