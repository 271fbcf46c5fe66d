// Package metrics has the words in which a part of a node describes its own metrics. Each part has a file metrics.go beside its
// numbers, with a method Metrics; services/node lists the parts once, and shows what they return to Prometheus.
//
// A group of metrics is read at once, at each scrape: nothing is counted twice, and no statement runs for each metric. A group that
// cannot be read has no values. Its metrics are then absent, which an alarm can detect; a 0 would say that all is well.
//
// Names do not change between versions, because dashboards and alarms have them.
package metrics

import "context"

// Kind is what a value can do.
type Kind int

// A gauge may fall. A counter only rises while the process lives; Prometheus sees a restart.
const (
	GaugeKind Kind = iota
	CounterKind
)

// Description is what is known of a metric without its value.
type Description struct {
	Name string // without the prefix tidings_
	Help string
	Kind Kind
}

// Metric is one metric of a part, with its value as a function of S: the numbers of the part, or the part itself.
type Metric[S any] struct {
	Description
	value func(S) float64
}

// number is a type of values.
type number interface{ ~int | ~uint64 | ~float64 }

// Gauge describes a value that may fall.
func Gauge[S any, N number](name, help string, value func(S) N) Metric[S] {
	return Metric[S]{Description{name, help, GaugeKind}, func(from S) float64 { return float64(value(from)) }}
}

// Flag describes a gauge that is 1 while a condition holds, else 0.
func Flag[S any](name, help string, holds func(S) bool) Metric[S] {
	return Gauge(name, help, func(from S) int {
		if holds(from) {
			return 1
		}
		return 0
	})
}

// Counter describes a value that only rises.
func Counter[S any, N number](name, help string, value func(S) N) Metric[S] {
	return Metric[S]{Description{name, help, CounterKind}, func(from S) float64 { return float64(value(from)) }}
}

// Group is a list of metrics that are read at once.
type Group struct {
	Descriptions []Description
	Label        string // the name of the label of each metric, "" for none
	// Read calls show with each value. It calls it for none if the values are not known. index is the metric's in Descriptions, and
	// label is "" in a group without a label.
	Read func(ctx context.Context, show func(index int, label string, value float64))
}

// Of returns the group of metrics that are read from a part one by one.
func Of[S any](part S, list ...Metric[S]) Group {
	return FromStats(func() S { return part }, list...)
}

// FromStats returns the group of metrics of a part's numbers, which are read at once.
func FromStats[S any](stats func() S, list ...Metric[S]) Group {
	return FromQuery(func(context.Context) (S, error) { return stats(), nil }, list...)
}

// FromQuery returns the group of metrics that are read by a query, such as a statement of SQL. After an error they are absent.
func FromQuery[S any](query func(ctx context.Context) (S, error), list ...Metric[S]) Group {
	return group("", list, func(ctx context.Context, show func(label string, from S)) {
		if from, err := query(ctx); err == nil {
			show("", from)
		}
	})
}

// FromRows returns the group of metrics that each row of a query has, with the name of the row as their label. There must be few
// rows, because Prometheus keeps each value of a label. After an error the metrics are absent.
func FromRows[S any](label string, name func(S) string, query func(ctx context.Context) ([]S, error), list ...Metric[S]) Group {
	return group(label, list, func(ctx context.Context, show func(label string, from S)) {
		rows, err := query(ctx)
		if err != nil {
			return
		}
		for _, row := range rows {
			show(name(row), row)
		}
	})
}

// group makes a group of a function that shows each S that the metrics are read from.
func group[S any](label string, list []Metric[S], read func(ctx context.Context, show func(label string, from S))) Group {
	made := Group{Label: label}
	for _, metric := range list {
		made.Descriptions = append(made.Descriptions, metric.Description)
	}
	made.Read = func(ctx context.Context, show func(index int, label string, value float64)) {
		read(ctx, func(label string, from S) {
			for i, metric := range list {
				show(i, label, metric.value(from))
			}
		})
	}
	return made
}
