package transport

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// An answer is compressed if it is long and the client accepts gzip. The decompressed answer is the same in any case.
func TestLongAnswersAreCompressedForClientsThatTakeIt(t *testing.T) {
	handler := newDevelopmentHandler(t, nil)
	long, short := strings.Repeat("a long answer, ", minGzipSize/10), "short"
	for _, test := range []struct {
		text, accepts, media string
		want                 bool
	}{
		{long, "gzip", "", true},
		{long, "br, gzip;q=0.5", typeResponse, true},
		{long, "", "", false},
		{long, "gzip;q=0, br", "", false},
		{short, "gzip", "", false},
	} {
		query := fmt.Sprintf("{ echo(text: %q) }", test.text)
		body := strings.NewReader(string(must(json.Marshal(map[string]string{"query": query}))))
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", body)
		request.Host = "tidings.test"
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept-Encoding", test.accepts)
		if test.media != "" {
			request.Header.Set("Accept", test.media)
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		got, header := recorder.Body.String(), recorder.Header()
		if length := header.Get("Content-Length"); length != strconv.Itoa(len(got)) {
			t.Errorf("%+v: the length of %d bytes is announced as %s", test, len(got), length)
		}
		if compressed := header.Get("Content-Encoding") == "gzip"; compressed != test.want {
			t.Errorf("with %q a text of %d bytes as %q: compressed %t", test.accepts, len(test.text), test.media, compressed)
		} else if compressed {
			if len(got) > len(test.text)/4 {
				t.Errorf("%d bytes became %d", len(test.text), len(got))
			}
			got = string(must(io.ReadAll(must(gzip.NewReader(strings.NewReader(got))))))
		}
		if !strings.Contains(got, `{"data":{"echo":"`+test.text+`"}}`) {
			t.Errorf("with %q the answer is %.100s", test.accepts, got)
		}
	}
}

// Answers that are compressed concurrently do not mix.
func TestCompressedAnswersDoNotMix(t *testing.T) {
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for k := range 50 {
				text := strings.Repeat(fmt.Sprintf("answer %d of %d ", k, i), minGzipSize/8+k)
				reader, err := gzip.NewReader(strings.NewReader(string(gzipBody([]byte(text)))))
				if err != nil {
					t.Error(err)
					return
				}
				if back, err := io.ReadAll(reader); err != nil || string(back) != text {
					t.Errorf("%d bytes came back as %d, %v", len(text), len(back), err)
				}
			}
		})
	}
	group.Wait()
}

// feedPageJSON returns an answer like the one to a query for a page of 20 posts of a home feed.
func feedPageJSON() []byte {
	var page strings.Builder
	page.WriteString(`{"data":{"viewer":{"homeFeed":{"edges":[`)
	for i := range 20 {
		fmt.Fprintf(&page, `{"cursor":"AQAAAAkzgn2Tw%04dAQ","node":{"id":"post:38G69J4CM%04d","body":"%s","createdAt":"2026-01-31T09:%02d:00.000Z",`+
			`"viewerHasLiked":%t,"likeCount":%d,"commentCount":%d,"author":{"id":"user:w%d-b","key":"w%d-b","name":"Somebody %d","avatarUrl":"https://cdn.example.com/avatars/%x.webp"}}},`,
			i*7919%10000, i*104729%10000, []string{"The market has strawberries again.", "Rehearsal tonight, doors open at eight.", "Sunday plan: none. Recommended.",
				"What I learned in a year of keeping bees, in eight short notes with pictures."}[i%4], i*13%60, i%3 == 0, i*i, i%5, i*31%97, i*31%97, i, i*2654435761)
	}
	page.WriteString(`],"pageInfo":{"hasNextPage":true,"endCursor":"AQAAAAkzgn2TwAAAAQ"}}}}}`)
	return []byte(page.String())
}

func BenchmarkCompressed(b *testing.B) {
	body := feedPageJSON()
	b.ReportAllocs()
	for b.Loop() {
		gzipBody(body)
	}
	b.ReportMetric(float64(len(body)), "bytes/before")
	b.ReportMetric(float64(len(gzipBody(body))), "bytes/after")
}
