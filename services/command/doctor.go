package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tidings/services"
	"tidings/services/node"
)

// errUnhealthy is the outcome of a "tidings doctor" that found failures. Warnings alone are no failure: scripts roll out a node or
// not by the exit code.
var errUnhealthy = errors.New("a node with these settings would not start, or not keep its promises: see the failures above")

// runDoctor runs "tidings doctor": it prints the findings, what to do about each, and their number. The error says that there are
// failures, or that out could not be written. All findings are printed before the outcome, so that one run shows everything that
// has to be done. The columns are as wide as the longest words in them.
func runDoctor(ctx context.Context, cfg node.Config, out io.Writer) error {
	found := node.Examine(ctx, cfg)
	err := error(nil)
	for _, finding := range found {
		if _, failed := fmt.Fprintf(out, "%-8s %-10s %s\n", finding.Severity, finding.Subject, finding.Text); failed != nil {
			return failed
		}
		if finding.Advice != "" {
			if _, failed := fmt.Fprintf(out, "%-19s %s\n", "", finding.Advice); failed != nil {
				return failed
			}
		}
		if finding.Severity == services.Failure {
			err = errUnhealthy
		}
	}
	if _, failed := fmt.Fprintf(out, "\n%s\n", node.Summary(found)); failed != nil {
		return failed
	}
	return err
}
