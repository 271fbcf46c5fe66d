package rdb

type hintReceivers struct{}
