package badge

import (
	"context"

	"tidings/services"
	"tidings/services/rdb"
)

// countFacts makes a document from the facts alone. It returns the sources that could not be read, and the last error. A
// source that hangs does not delay the others: each has its own time limit, and all together have three times that.
func (s *Service) countFacts(ctx context.Context, user services.UserID, today int64) (document rdb.Document, failed []Source, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*s.patience)
	defer cancel()
	for _, source := range s.sources {
		// A copy, so that a source that fails leaves nothing half written.
		next := document
		if failure := s.countSource(ctx, source, user, today, &next); failure != nil {
			failed, err = append(failed, source), failure
			source.Empty(&document)
			continue
		}
		document = next
	}
	return document, failed, err
}

// countSource counts one source, within the time of one source.
func (s *Service) countSource(ctx context.Context, source Source, user services.UserID, today int64, document *rdb.Document) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return source.Facts(ctx, user, today, document)
}
