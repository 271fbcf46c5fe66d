// Command tidings is a GraphQL server for feeds and unread badges. tidings --help lists its commands and settings.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"tidings/services/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command.Run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
