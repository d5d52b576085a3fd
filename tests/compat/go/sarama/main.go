// sarama through produce, consume, groups, transactions and administration; ends with an error at
// the first surprise.
//
//	sarama BOOTSTRAP TOPIC_PREFIX
//
// With KAFKA_CA it connects by TLS. With KAFKA_USER and KAFKA_PASSWORD it logs in by PLAIN: its SCRAM
// is left to a package of the application. With KAFKA_CERTIFICATE and KAFKA_KEY it shows a certificate.
// With --topics as the prefix it prints the names of the topics, and ends. With --read or
// --transaction as the prefix: see secured.go.
// Leaves PREFIX-CODEC with the values 0..99 in it for each codec, for others to read.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

const records = 100

var bootstrap, prefix string

func check(err error, what ...any) {
	if err != nil {
		log.Panicln(append(what, err)...)
	}
}

func equal[T comparable](got, want T, what string) {
	if got != want {
		log.Panicf("%s: got %v, not %v", what, got, want)
	}
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Idempotent = true
	made.Producer.Return.Successes = true
	made.Net.MaxOpenRequests = 1
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	made.Consumer.Group.Session.Timeout = 6 * time.Second
	made.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	if user := os.Getenv("KAFKA_USER"); user != "" {
		made.Net.SASL.Enable, made.Net.SASL.Mechanism = true, sarama.SASLTypePlaintext
		made.Net.SASL.User, made.Net.SASL.Password = user, os.Getenv("KAFKA_PASSWORD")
	}
	if file := os.Getenv("KAFKA_CA"); file != "" {
		text, err := os.ReadFile(file)
		check(err)
		pool := x509.NewCertPool()
		equal(pool.AppendCertsFromPEM(text), true, file)
		made.Net.TLS.Enable, made.Net.TLS.Config = true, &tls.Config{RootCAs: pool}
		if certificate := os.Getenv("KAFKA_CERTIFICATE"); certificate != "" {
			pair, err := tls.LoadX509KeyPair(certificate, os.Getenv("KAFKA_KEY"))
			check(err)
			made.Net.TLS.Config.Certificates = []tls.Certificate{pair}
		}
	}
	return made
}

func message(topic string, n int) *sarama.ProducerMessage {
	text := strconv.Itoa(n)
	return &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(fmt.Sprint("key-", n%7)),
		Value: sarama.StringEncoder(text), Headers: []sarama.RecordHeader{{Key: []byte("n"), Value: []byte(text)}}}
}

// reader is a member of a group that stops after so many records.
type reader struct {
	count  int
	values []int
	stop   context.CancelFunc
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for got := range claim.Messages() {
		equal(string(got.Headers[0].Value), string(got.Value), "header")
		n, err := strconv.Atoi(string(got.Value))
		check(err)
		mutex <- true
		r.values = append(r.values, n)
		done := len(r.values) == r.count
		<-mutex
		session.MarkMessage(got, "")
		if done {
			session.Commit()
			r.stop()
		}
	}
	return nil
}

var mutex = make(chan bool, 1)

// consume gives what a group reads from the topic until it has seen so many records.
func consume(group, topic string, count int) []int {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	member, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config())
	check(err)
	handler := &reader{count: count, stop: stop}
	for ctx.Err() == nil {
		check(member.Consume(ctx, []string{topic}, handler), "consume")
	}
	check(member.Close())
	slices.Sort(handler.values)
	return handler.values
}

func checkNumbers(values []int, what string) {
	equal(len(values), records, what)
	for index, value := range values {
		equal(value, index, what)
	}
}

func codecs(admin sarama.ClusterAdmin) {
	for name, codec := range map[string]sarama.CompressionCodec{"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
		"changed": sarama.CompressionLZ4} {
		topic := prefix + "-" + name
		check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false), topic)
		options := config()
		options.Producer.Compression = codec
		producer, err := sarama.NewSyncProducer([]string{bootstrap}, options)
		check(err)
		for first := 0; first < records; first += 20 {
			var batch []*sarama.ProducerMessage
			for n := first; n < first+20; n++ {
				batch = append(batch, message(topic, n))
			}
			check(producer.SendMessages(batch), topic)
		}
		check(producer.Close())
		checkNumbers(consume(prefix+"-readers-"+name, topic, records), "group of "+topic)
	}
}

func transactions(admin sarama.ClusterAdmin, input string) {
	output, group := prefix+"-copied", prefix+"-copiers"
	check(admin.CreateTopic(output, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	options := config()
	options.Producer.Transaction.ID = prefix + "-copier"
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, options)
	check(err)
	for round := range 4 { // two committed, two aborted
		check(producer.BeginTxn())
		for n := range records / 2 {
			_, _, err := producer.SendMessage(message(output, n+records/2*(round/2)))
			check(err)
		}
		next := &sarama.PartitionOffsetMetadata{Partition: 0, Offset: int64(round + 1), LeaderEpoch: -1}
		check(producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{input: {next}}, group))
		if round%2 == 0 {
			check(producer.AbortTxn())
		} else {
			check(producer.CommitTxn())
		}
	}
	check(producer.Close())
	checkNumbers(consume(prefix+"-committed", output, records), "committed")
	committed, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{input: {0}})
	check(err)
	equal(committed.GetBlock(input, 0).Offset, 4, "offset of the last committed transaction")
}

func administration(admin sarama.ClusterAdmin, input string) {
	topic, retention, changed := prefix+"-admin", "77777", "88888"
	detail := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention}}
	check(admin.CreateTopic(topic, detail, false))
	check(admin.CreatePartitions(topic, 3, nil, false))
	topics, err := admin.DescribeTopics([]string{topic})
	check(err)
	equal(len(topics[0].Partitions), 3, "partitions")
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}
	entry := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &changed}}
	check(admin.IncrementalAlterConfig(sarama.TopicResource, topic, entry, false))
	entries, err := admin.DescribeConfig(resource)
	check(err)
	equal(entries[0].Value, changed, "retention.ms")
	brokers, _, err := admin.DescribeCluster()
	check(err)
	equal(len(brokers), 1, "brokers")
	dirs, err := admin.DescribeLogDirs([]int32{brokers[0].ID()})
	check(err)
	equal(len(dirs), 1, "log directories")
	ends, err := admin.ListOffsets(map[string]map[int32]int64{input: {0: sarama.OffsetNewest, 1: sarama.OffsetNewest, 2: sarama.OffsetNewest}}, nil)
	check(err)
	equal(ends[input][0].Offset+ends[input][1].Offset+ends[input][2].Offset, records, "end offsets")
	check(admin.DeleteRecords(input, map[int32]int64{0: ends[input][0].Offset}))
	starts, err := admin.ListOffsets(map[string]map[int32]int64{input: {0: sarama.OffsetOldest}}, nil)
	check(err)
	equal(starts[input][0].Offset, ends[input][0].Offset, "log start after DeleteRecords")
	group := prefix + "-readers-none"
	groups, err := admin.ListConsumerGroups()
	check(err)
	equal(groups[group], "consumer", "protocol type")
	described, err := admin.DescribeConsumerGroups([]string{group})
	check(err)
	equal(described[0].State, "Empty", "state")
	check(admin.DeleteConsumerGroupOffset(group, prefix+"-none", 0))
	check(admin.DeleteConsumerGroup(group))
	check(admin.DeleteTopic(topic))
}

func main() {
	bootstrap, prefix = os.Args[1], os.Args[2]
	if prefix == "--read" || prefix == "--transaction" {
		playSecured(prefix, os.Args[3:])
		return
	}
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, config())
	check(err)
	if prefix == "--topics" {
		topics, err := admin.ListTopics()
		check(err)
		for name := range topics {
			fmt.Println(name)
		}
		return
	}
	codecs(admin)
	transactions(admin, prefix+"-zstd")
	administration(admin, prefix+"-changed")
	check(admin.Close())
}
