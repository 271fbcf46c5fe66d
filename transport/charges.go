package transport

import (
	"context"
	"sync/atomic"
)

// frontCharges says what the front has already checked and charged for a request, so that the HTTP server and the executor charge
// only the rest. It is in the context of one request, or of a handed connection, where the front has charged only the address of
// the first request.
type frontCharges struct {
	addressChargeUsed atomic.Bool  // false: the front has charged the address for one more request; true: that request has come
	operationCharged  bool         // the front has charged the operation too
	caller            *frontCaller // the caller, whose token was checked; nil: the token must still be checked
}

// frontChargesKey is the key of a *frontCharges. Its absence means that nothing was charged.
type frontChargesKey struct{}

// chargeAddress charges a request to its address, unless the front has done so. Swap makes the charge count for one request only:
// later requests of a handed connection are charged.
func (q *httpTransport) chargeAddress(ctx context.Context, address string) error {
	if charges, ok := ctx.Value(frontChargesKey{}).(*frontCharges); ok && !charges.addressChargeUsed.Swap(true) {
		return nil
	}
	return q.cfg.Limits.ChargeAddress(address)
}

// isOperationCharged reports whether the front has charged the operation. This is so if an answer by a HotAnswerFunc failed after
// the charge.
func isOperationCharged(ctx context.Context) bool {
	charges, ok := ctx.Value(frontChargesKey{}).(*frontCharges)
	return ok && charges.operationCharged
}
