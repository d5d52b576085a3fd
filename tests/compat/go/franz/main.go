// franz-go through produce, consume, groups, transactions and administration; ends with an error at
// the first surprise.
//
//	franz BOOTSTRAP TOPIC_PREFIX
//
// With KAFKA_CA it connects by TLS. With KAFKA_USER and KAFKA_PASSWORD it logs in by SCRAM-SHA-512; with
// KAFKA_CERTIFICATE and KAFKA_KEY it shows a certificate. With --topics as the prefix it prints the
// names of the topics, and ends. With --read or --transaction as the prefix: see secured.go.
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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const records = 100

var (
	bootstrap, prefix string
	ctx               context.Context
)

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

// connecting says where the broker is, and how to get in.
func connecting() []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap)}
	if user := os.Getenv("KAFKA_USER"); user != "" {
		login := scram.Auth{User: user, Pass: os.Getenv("KAFKA_PASSWORD")}
		options = append(options, kgo.SASL(login.AsSha512Mechanism()))
	}
	if file := os.Getenv("KAFKA_CA"); file != "" {
		text, err := os.ReadFile(file)
		check(err)
		pool := x509.NewCertPool()
		equal(pool.AppendCertsFromPEM(text), true, file)
		config := &tls.Config{RootCAs: pool}
		if certificate := os.Getenv("KAFKA_CERTIFICATE"); certificate != "" {
			pair, err := tls.LoadX509KeyPair(certificate, os.Getenv("KAFKA_KEY"))
			check(err)
			config.Certificates = []tls.Certificate{pair}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	return options
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, connecting()...)...)
	check(err)
	return made
}

func record(topic string, n int) *kgo.Record {
	text := strconv.Itoa(n)
	return &kgo.Record{Topic: topic, Key: fmt.Append(nil, "key-", n%7), Value: []byte(text),
		Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(text)}}}
}

// checkNumbers fails unless the values are 0..99, each once.
func checkNumbers(values []int, what string) {
	slices.Sort(values)
	equal(len(values), records, what)
	for index, value := range values {
		equal(value, index, what)
	}
}

// read polls until so many records came.
func read(cl *kgo.Client, count int) []int {
	var values []int
	for len(values) < count {
		fetches := cl.PollFetches(ctx)
		check(fetches.Err(), "poll")
		fetches.EachRecord(func(r *kgo.Record) {
			equal(string(r.Headers[0].Value), string(r.Value), "header")
			n, err := strconv.Atoi(string(r.Value))
			check(err)
			values = append(values, n)
		})
	}
	return values
}

func codecs(admin *kadm.Client) {
	names := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		"changed": kgo.Lz4Compression()}
	for name, codec := range names {
		topic := prefix + "-" + name
		_, err := admin.CreateTopic(ctx, 3, 1, nil, topic)
		check(err, topic)
		producer := client(kgo.ProducerBatchCompression(codec))
		for n := range records {
			check(producer.ProduceSync(ctx, record(topic, n)).FirstErr(), topic)
		}
		producer.Close()
		direct := client(kgo.ConsumeTopics(topic))
		checkNumbers(read(direct, records), "read of "+topic)
		direct.Close()
	}
}

func groups(topic string) {
	group := prefix + "-group"
	options := []kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.InstanceID("one"),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond)}
	first := client(append(options, kgo.DisableAutoCommit())...)
	values := read(first, records)
	check(first.CommitUncommittedOffsets(ctx), "commit")
	first.Close()
	producer := client()
	check(producer.ProduceSync(ctx, record(topic, records)).FirstErr())
	producer.Close()
	// A static member left nothing behind but its commit: it goes on where it was.
	second := client(options...)
	equal(read(second, 1)[0], records, "the group goes on")
	check(second.CommitUncommittedOffsets(ctx), "commit")
	second.Close()
	checkNumbers(values, "group")
}

func transactions(admin *kadm.Client, input string) {
	output := prefix + "-copied"
	_, err := admin.CreateTopic(ctx, 1, 1, nil, output)
	check(err)
	session, err := kgo.NewGroupTransactSession(append(connecting(), kgo.TransactionalID(prefix+"-copier"),
		kgo.ConsumeTopics(input), kgo.ConsumerGroup(prefix+"-copiers"), kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.TransactionTimeout(10*time.Second))...)
	check(err)
	for copied, round := 0, 0; copied < records; round++ {
		fetches := session.PollRecords(ctx, 40)
		check(fetches.Err(), "poll")
		check(session.Begin())
		fetches.EachRecord(func(r *kgo.Record) {
			check(session.ProduceSync(ctx, &kgo.Record{Topic: output, Value: r.Value, Headers: r.Headers}).FirstErr())
		})
		abort := round%2 == 0 // what is aborted is polled again
		committed, err := session.End(ctx, kgo.TransactionEndTry(!abort))
		check(err, "end")
		equal(committed, !abort, "committed")
		if committed {
			copied += fetches.NumRecords()
		}
	}
	session.Close()
	reader := client(kgo.ConsumeTopics(output), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	checkNumbers(read(reader, records), "copied in transactions")
	reader.Close()
	described, err := admin.DescribeTransactions(ctx, prefix+"-copier")
	check(err)
	equal(described[prefix+"-copier"].State, "CompleteCommit", "transaction")
	listed, err := admin.ListTransactions(ctx, nil, nil)
	check(err)
	equal(listed[prefix+"-copier"].TxnID, prefix+"-copier", "transactions")
}

func administration(admin *kadm.Client, input string) {
	topic, retention := prefix+"-admin", "77777"
	_, err := admin.CreateTopic(ctx, 1, -1, map[string]*string{"retention.ms": &retention}, topic)
	check(err)
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	check(err)
	check(configs[0].Err)
	equal(value(configs[0], "retention.ms"), retention, "retention.ms")
	changed := "88888"
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &changed}}, topic)
	check(err)
	check(altered[0].Err)
	configs, err = admin.DescribeTopicConfigs(ctx, topic)
	check(err)
	equal(value(configs[0], "retention.ms"), changed, "retention.ms")
	grown, err := admin.UpdatePartitions(ctx, 4, topic)
	check(err)
	check(grown.Error())
	topics, err := admin.ListTopics(ctx, topic)
	check(err)
	equal(len(topics[topic].Partitions), 4, "partitions")

	ends, err := admin.ListEndOffsets(ctx, input)
	check(err)
	check(ends.Error())
	var sum int64
	ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	equal(sum, records+1, "end offsets")
	latest, err := admin.ListMaxTimestampOffsets(ctx, input)
	check(err)
	check(latest.Error())
	lag, err := admin.Lag(ctx, prefix+"-group")
	check(err)
	check(lag.Error())
	equal(lag[prefix+"-group"].Lag.Total(), 0, "lag")
	deleted, err := admin.DeleteRecords(ctx, ends.Offsets())
	check(err)
	check(deleted.Error())
	starts, err := admin.ListStartOffsets(ctx, input)
	check(err)
	starts.Each(func(o kadm.ListedOffset) {
		end, _ := ends.Lookup(o.Topic, o.Partition)
		equal(o.Offset, end.Offset, "log start after DeleteRecords")
	})
	dirs, err := admin.DescribeAllLogDirs(ctx, nil)
	check(err)
	for _, described := range dirs {
		check(described.Error())
	}
	producers, err := admin.DescribeProducers(ctx, ends.Offsets().TopicsSet())
	check(err)
	equal(len(producers), 1, "topics of producers")
	_, err = admin.ListPartitionReassignments(ctx, nil)
	check(err)
	metadata, err := admin.BrokerMetadata(ctx)
	check(err)
	equal(len(metadata.Brokers), 1, "brokers")

	set := kadm.Offsets{}
	set.AddOffset(input, 0, 7, -1)
	check(admin.CommitAllOffsets(ctx, prefix+"-set", set))
	fetched, err := admin.FetchOffsets(ctx, prefix+"-set")
	check(err)
	offset, _ := fetched.Lookup(input, 0)
	equal(offset.At, 7, "committed for a group")
	many := admin.FetchManyOffsets(ctx, prefix+"-set", prefix+"-group")
	check(many[prefix+"-set"].Err)
	equal(len(many), 2, "groups")
	listed, err := admin.ListGroups(ctx)
	check(err)
	equal(listed[prefix+"-set"].State, "Empty", "state")
	gone, err := admin.DeleteGroup(ctx, prefix+"-set")
	check(err)
	check(gone.Err)
	removed, err := admin.DeleteTopics(ctx, topic)
	check(err)
	check(removed.Error())
}

func value(configs kadm.ResourceConfig, name string) string {
	for _, config := range configs.Configs {
		if config.Key == name {
			return config.MaybeValue()
		}
	}
	return ""
}

func main() {
	var cancel context.CancelFunc
	ctx, cancel = context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	bootstrap, prefix = os.Args[1], os.Args[2]
	if prefix == "--read" || prefix == "--transaction" {
		playSecured(prefix, os.Args[3:])
		return
	}
	cl := client()
	defer cl.Close()
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	check(err)
	equal(versions.ErrorCode, 0, "ApiVersions")
	admin := kadm.NewClient(cl)
	if prefix == "--topics" {
		topics, err := admin.ListTopics(ctx)
		check(err)
		for _, name := range topics.Names() {
			fmt.Println(name)
		}
		return
	}
	codecs(admin)
	groups(prefix + "-changed")
	transactions(admin, prefix+"-zstd")
	administration(admin, prefix+"-changed")
}
