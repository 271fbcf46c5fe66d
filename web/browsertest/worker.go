package browsertest

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"
)

// GrantPermission gives an origin a permission, such as "notifications", as a click of the user does. Without it a page would wait for
// the answer to the browser's prompt, which a test cannot click.
func GrantPermission(ctx context.Context, tb testing.TB, origin, permission string) {
	tb.Helper()
	runSteps(ctx, tb, "permit "+permission, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: permission}, Setting: browser.PermissionSettingGranted, Origin: origin,
		})
		return err
	}))
}

// DeliverPush gives a message to the service worker of an origin, as the browser does after it decrypts a message of its push
// service. The worker is the first one that the browser registered. No push service takes part, so DeliverPush works without a
// network.
func DeliverPush(ctx context.Context, tb testing.TB, origin, message string) {
	tb.Helper()
	runSteps(ctx, tb, "deliver "+message, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		// Until the protocol's domain ServiceWorker is enabled, the browser knows no worker to deliver to.
		if _, err := cdp.Call(ctx, target, serviceworker.Enable, cdp.Empty{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, target, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{Origin: origin, RegistrationID: "0", Data: message})
		return err
	}))
}
