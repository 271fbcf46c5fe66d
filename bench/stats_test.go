package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1000, 2}, 2}, // one outlier does not move the median
	} {
		if got := median(test.values); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
	values := []float64{3, 1, 2}
	median(values)
	if !slices.Equal(values, []float64{3, 1, 2}) {
		t.Errorf("median changed its argument to %v", values)
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := 1; i <= 100; i++ {
		hundred = append(hundred, time.Duration(i))
	}
	for _, test := range []struct {
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred, 0, 1}, {hundred, 99.5, 100},
		{[]time.Duration{5}, 50, 5}, {[]time.Duration{5}, 99, 5},
		{[]time.Duration{1, 2}, 50, 1}, {[]time.Duration{1, 2, 3}, 50, 2}, {[]time.Duration{1, 2, 3}, 99, 3},
		{nil, 50, 0},
	} {
		if got := percentile(test.sorted, test.p); got != test.want {
			t.Errorf("percentile(%d values, %v) = %d, want %d", len(test.sorted), test.p, got, test.want)
		}
	}
}

func TestRatio(t *testing.T) {
	if got := ratio(3, 2); got != 1.5 {
		t.Errorf("ratio(3, 2) = %v", got)
	}
	for _, pair := range [][2]float64{{1, 0}, {nan, 1}, {1, nan}} {
		if got := ratio(pair[0], pair[1]); !math.IsNaN(got) {
			t.Errorf("ratio(%v, %v) = %v, want NaN", pair[0], pair[1], got)
		}
	}
}

func TestSeriesAnswersMedians(t *testing.T) {
	s := series{
		{ratePerSecond: 100, latencyP50: 1 * time.Millisecond, latencyP99: 9 * time.Millisecond, serverCPUPerAnswer: 20 * time.Microsecond, bytesPerSocketOrEntry: 1000},
		{ratePerSecond: 300, latencyP50: 3 * time.Millisecond, latencyP99: 7 * time.Millisecond, serverCPUPerAnswer: 10 * time.Microsecond, bytesPerSocketOrEntry: 3000},
		{ratePerSecond: 200, latencyP50: 2 * time.Millisecond, latencyP99: 8 * time.Millisecond, serverCPUPerAnswer: 30 * time.Microsecond, bytesPerSocketOrEntry: 2000},
	}
	if s.medianRate() != 200 || s.medianLatencyP50() != 2*time.Millisecond || s.medianLatencyP99() != 8*time.Millisecond || s.medianServerCPUMicros() != 20 || s.medianBytesPerSocketOrEntry() != 2000 {
		t.Errorf("medians: rate %v, p50 %v, p99 %v, cpu %v, memory %v", s.medianRate(), s.medianLatencyP50(), s.medianLatencyP99(), s.medianServerCPUMicros(), s.medianBytesPerSocketOrEntry())
	}
	if got := s.rateSpread(); got != 1 {
		t.Errorf("the rates lie %v apart, want 1", got)
	}
}

func TestSeriesWithoutValuesAreUnmeasured(t *testing.T) {
	s := series{{ratePerSecond: 100, serverCPUPerAnswer: -1, bytesPerSocketOrEntry: nan}, {ratePerSecond: 100, serverCPUPerAnswer: 5 * time.Microsecond, bytesPerSocketOrEntry: nan}}
	if s.medianServerCPUMicros() != 5 {
		t.Errorf("cpu %v: the round without it was counted", s.medianServerCPUMicros())
	}
	if !math.IsNaN(s.medianBytesPerSocketOrEntry()) {
		t.Errorf("memory %v, though no round measured it", s.medianBytesPerSocketOrEntry())
	}
	var none series
	if !math.IsNaN(none.medianRate()) || none.medianLatencyP50() != 0 || !math.IsNaN(none.rateSpread()) {
		t.Errorf("without rounds: rate %v, p50 %v, spread %v", none.medianRate(), none.medianLatencyP50(), none.rateSpread())
	}
}

func TestNewSample(t *testing.T) {
	sorted := []time.Duration{1 * time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond, 4 * time.Millisecond}
	got := newSample(sorted, 2*time.Second)
	if got.ratePerSecond != 2 || got.latencyP50 != 2*time.Millisecond || got.latencyP99 != 4*time.Millisecond || got.serverCPUPerAnswer >= 0 || !math.IsNaN(got.bytesPerSocketOrEntry) {
		t.Errorf("got %+v", got)
	}
}
