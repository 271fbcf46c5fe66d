package importer

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

const (
	progressLineInterval = 5 * time.Second        // between two lines, where the output is no terminal
	progressBarInterval  = 100 * time.Millisecond // between two drawings of the bar on a terminal
	barWidth             = 24                     // in letters, full or empty
)

// progress shows how much of a file is imported: as a bar on a terminal, as a line each 5 s elsewhere. The remaining part is
// computed from the bytes of the stored file.
//
// It draws the bar itself. A library would save some 15 lines: schollz/progressbar reads the machine's clock, so a test could not set
// the time; it draws nothing after the first 100 %, which a small file reaches with its first batch; and it cannot print the lines. mpb draws
// from a goroutine of its own, between the bad lines that are printed.
type progress struct {
	// out is io.Discard if the import is quiet. An error of the writer fails nothing here.
	out io.Writer
	now func() time.Time
	// fileBytes is the file's size as it is stored, of which the bytes given to show are a part. 0 means unknown: neither a share nor
	// a remaining time is shown.
	fileBytes    int64
	started      time.Time // when this run came to its first new line
	skippedBytes int64     // bytes of the file that an earlier run has imported
	lastDrawnAt  time.Time // when the bar or a line was last drawn; at first the start
	drawsBar     bool      // a bar is drawn on a terminal, in place of lines
	countedUnit  string    // what the counted items are called: follows, posts
	drawnLength  int       // letters of the bar that are on the screen
}

// newProgress makes the progress of an import that begins at started.
func newProgress(opts Options, form Form, size int64, started time.Time) *progress {
	p := &progress{out: opts.Out, now: opts.Clock.Now, fileBytes: size, started: started, lastDrawnAt: started, drawsBar: opts.OutIsTerminal, countedUnit: form.CountedUnit}
	if opts.Quiet {
		p.out = io.Discard
	}
	return p
}

// startAt records that this run begins now, after so many bytes. The lines of an earlier run took no time of this run, and must not
// make it look fast.
func (p *progress) startAt(bytes int64) {
	p.skippedBytes = bytes
	p.started = p.now()
}

// show draws the state after a batch, unless it did so a moment ago.
func (p *progress) show(report Report, bytes int64) {
	if now := p.now(); p.shouldDraw(now) {
		p.draw(p.text(report, bytes, now.Sub(p.started)))
	}
}

// showReplayProgress draws the progress of a replay: its last event, and the time of that event.
func (p *progress) showReplayProgress(report Report, event, events int64, at time.Time) {
	if p.shouldDraw(p.now()) {
		p.draw(fmt.Sprintf("%s  %s of %s events  %s %s", at.UTC().Format(time.RFC3339), humanize.Comma(event), humanize.Comma(events), humanize.Comma(report.NewItems), p.countedUnit))
	}
}

// shouldDraw reports whether it is time to draw again, and if so starts the next wait.
func (p *progress) shouldDraw(now time.Time) bool {
	every := progressLineInterval
	if p.drawsBar {
		every = progressBarInterval
	}
	if now.Sub(p.lastDrawnAt) < every {
		return false
	}
	// Only a drawing begins the next wait. If each batch began it, short batches would delay the next drawing for ever.
	p.lastDrawnAt = now
	return true
}

// draw writes a line, or draws over the previous bar: the text is padded to that bar's length, so that no letter of it is left.
func (p *progress) draw(text string) {
	// A log or a file keeps each line.
	if !p.drawsBar {
		_, _ = fmt.Fprintln(p.out, text)
		return
	}
	_, _ = fmt.Fprintf(p.out, "\r%-*s", p.drawnLength, text)
	p.drawnLength = len(text)
}

// text is the state of an import in one line. The remaining time counts from the bytes of this run, because an earlier run's were
// skipped and took no time.
func (p *progress) text(report Report, bytes int64, took time.Duration) string {
	var text strings.Builder
	done := 0.0
	if p.fileBytes > 0 {
		done = min(float64(bytes)/float64(p.fileBytes), 1)
		if p.drawsBar {
			filled := int(done * barWidth)
			fmt.Fprintf(&text, "[%s%s] ", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled))
		}
		fmt.Fprintf(&text, "%3.0f %%  ", done*100)
	}
	perSecond := float64(report.progressCount()) / max(took.Seconds(), 0.001)
	fmt.Fprintf(&text, "%s rows  %s %s/s", humanize.Comma(report.GoodRows), humanize.Comma(int64(perSecond)), p.countedUnit)
	// The rest takes as long for each byte as this run has taken so far.
	if worked := bytes - p.skippedBytes; p.fileBytes > 0 && worked > 0 {
		left := time.Duration(float64(took) * float64(p.fileBytes-bytes) / float64(worked))
		fmt.Fprintf(&text, "  %s left", max(left, 0).Round(time.Second))
	}
	return text.String()
}

// clearBar removes the bar, so that later output starts on a new line.
func (p *progress) clearBar() {
	if p.drawnLength > 0 {
		_, _ = fmt.Fprintf(p.out, "\r%*s\r", p.drawnLength, "")
		p.drawnLength = 0
	}
}
