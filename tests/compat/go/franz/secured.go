package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// playSecured does what a user does while its rights or its session end:
//
//	franz BOOTSTRAP --read TOPIC
//	franz BOOTSTRAP --transaction TOPIC PAUSE_MS
func playSecured(what string, arguments []string) {
	topic := arguments[0]
	if what == "--read" {
		readOn(topic)
		return
	}
	pause, err := strconv.Atoi(arguments[1])
	check(err)
	transact(topic, time.Duration(pause)*time.Millisecond)
}

// readOn prints each value of partition 0, and "denied" whenever the right to read is missing.
func readOn(topic string) {
	cl := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		for _, each := range fetches.Errors() {
			if !errors.Is(each.Err, kerr.TopicAuthorizationFailed) {
				check(each.Err)
			}
			fmt.Println("denied")
		}
		fetches.EachRecord(func(r *kgo.Record) { fmt.Println(string(r.Value)) })
	}
}

// transact writes "0" and "1" in one transaction, with a pause between them.
func transact(topic string, pause time.Duration) {
	cl := client(kgo.TransactionalID("alice-" + topic))
	defer cl.Close()
	check(cl.BeginTransaction())
	check(cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("0")}).FirstErr())
	time.Sleep(pause)
	check(cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("1")}).FirstErr())
	check(cl.EndTransaction(ctx, kgo.TryCommit), "commit")
}
