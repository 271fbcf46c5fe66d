package main

import (
	"math"
	"slices"
	"time"
)

// median returns the middle value, or the mean of the middle two if the number of values is even; NaN without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile returns the smallest of the sorted values that at least p percent of all values do not exceed; 0 without values.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// ratio returns a over b; NaN when b is 0, or when a or b is NaN.
func ratio(a, b float64) float64 {
	if b == 0 || math.IsNaN(a) || math.IsNaN(b) {
		return math.NaN()
	}
	return a / b
}

// sample is the result of one round for one program.
type sample struct {
	ratePerSecond          float64       // answers or events a second
	latencyP50, latencyP99 time.Duration // the median and the 99th percentile of the latencies
	serverCPUPerAnswer     time.Duration // processor time of the server for one answer or event; negative when not known
	clientCPUPerAnswer     time.Duration // processor time of this program for one answer; 0 when not known
	bytesPerSocketOrEntry  float64       // memory for one socket, or for one entry of another kind; NaN when not measured
}

// series holds the samples of one program, one for each round.
type series []sample

// medianOf returns the median of the figure that the function value takes from each sample, without the samples in which it is NaN.
func (s series) medianOf(value func(sample) float64) float64 {
	var values []float64
	for _, one := range s {
		if v := value(one); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return median(values)
}

// medianRate returns the median over the rounds of ratePerSecond.
func (s series) medianRate() float64 {
	return s.medianOf(func(one sample) float64 { return one.ratePerSecond })
}

// medianLatencyP50 returns the median over the rounds of latencyP50.
func (s series) medianLatencyP50() time.Duration {
	return duration(s.medianOf(func(one sample) float64 { return float64(one.latencyP50) }))
}

// medianLatencyP99 returns the median over the rounds of latencyP99.
func (s series) medianLatencyP99() time.Duration {
	return duration(s.medianOf(func(one sample) float64 { return float64(one.latencyP99) }))
}

// medianServerCPUMicros returns the median processor time of the server for one answer or event, in microseconds.
func (s series) medianServerCPUMicros() float64 {
	return s.medianOf(func(one sample) float64 {
		if one.serverCPUPerAnswer < 0 {
			return math.NaN()
		}
		return float64(one.serverCPUPerAnswer) / float64(time.Microsecond)
	})
}

// medianClientCPUMicros returns the median processor time of this program for one answer, in microseconds.
func (s series) medianClientCPUMicros() float64 {
	return s.medianOf(func(one sample) float64 { return float64(one.clientCPUPerAnswer) / float64(time.Microsecond) })
}

// medianBytesPerSocketOrEntry returns the median over the rounds of bytesPerSocketOrEntry.
func (s series) medianBytesPerSocketOrEntry() float64 {
	return s.medianOf(func(one sample) float64 { return one.bytesPerSocketOrEntry })
}

// rateSpread returns how far the rates of the rounds lie apart: (greatest - least) / median.
func (s series) rateSpread() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	least, greatest := math.Inf(1), math.Inf(-1)
	for _, one := range s {
		least, greatest = min(least, one.ratePerSecond), max(greatest, one.ratePerSecond)
	}
	return ratio(greatest-least, s.medianRate())
}

// duration returns nanoseconds as a duration; 0 for NaN.
func duration(nanoseconds float64) time.Duration {
	if math.IsNaN(nanoseconds) {
		return 0
	}
	return time.Duration(nanoseconds)
}
