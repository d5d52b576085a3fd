package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

// playSecured does what a user does while its rights or its session end:
//
//	sarama BOOTSTRAP --read TOPIC
//	sarama BOOTSTRAP --transaction TOPIC PAUSE_MS
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
	made := config()
	made.Consumer.Return.Errors = true
	made.Consumer.Retry.Backoff = 200 * time.Millisecond
	consumer, err := sarama.NewConsumer([]string{bootstrap}, made)
	check(err)
	reading, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	check(err)
	for {
		select {
		case message := <-reading.Messages():
			fmt.Println(string(message.Value))
		case failed := <-reading.Errors():
			if !errors.Is(failed, sarama.ErrTopicAuthorizationFailed) {
				check(failed)
			}
			fmt.Println("denied")
		}
	}
}

// transact writes "0" and "1" in one transaction, with a pause between them.
func transact(topic string, pause time.Duration) {
	made := config()
	made.Producer.Transaction.ID = "alice-" + topic
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, made)
	check(err)
	check(producer.BeginTxn())
	send := func(value string) {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
		check(err)
	}
	send("0")
	time.Sleep(pause)
	send("1")
	check(producer.CommitTxn(), "commit")
	check(producer.Close())
}
