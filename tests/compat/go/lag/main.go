// The lag of every group as kafka_exporter computes and names it, in Prometheus's text format.
//
//	lag BOOTSTRAP
//
// kafka_exporter is a program and no module that others can fetch, so this repeats its requests
// through the same client: from each broker the groups it lists, described, then OffsetFetch for
// every partition of the cluster. Its lag is the newest offset less the committed one, or -1 for a
// partition without a committed offset in a topic where another partition has one.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/IBM/sarama"
)

const noOffset = -1

func check(err error) {
	if err != nil {
		log.Panicln(err)
	}
}

func newestOffsets(client sarama.Client) map[string]map[int32]int64 {
	ends := map[string]map[int32]int64{}
	topics, err := client.Topics()
	check(err)
	for _, topic := range topics {
		partitions, err := client.Partitions(topic)
		check(err)
		ends[topic] = map[int32]int64{}
		for _, partition := range partitions {
			ends[topic][partition], err = client.GetOffset(topic, partition, sarama.OffsetNewest)
			check(err)
		}
	}
	return ends
}

// printGroup prints the offsets and the lag of a group, topic by topic.
func printGroup(broker *sarama.Broker, id string, ends map[string]map[int32]int64) {
	request := &sarama.OffsetFetchRequest{ConsumerGroup: id, Version: 4}
	for topic, partitions := range ends {
		for partition := range partitions {
			request.AddPartition(topic, partition)
		}
	}
	fetched, err := broker.FetchOffset(request)
	check(err)
	for topic, blocks := range fetched.Blocks {
		isConsumed := false
		for _, block := range blocks {
			isConsumed = isConsumed || block.Offset != noOffset
		}
		if !isConsumed {
			continue
		}
		var sum int64
		for partition, block := range blocks {
			if block.Err != sarama.ErrNoError {
				log.Panicln(id, topic, partition, block.Err)
			}
			lag := int64(noOffset)
			if block.Offset != noOffset {
				lag = ends[topic][partition] - block.Offset
				sum += lag
			}
			at := fmt.Sprintf("{consumergroup=%q,topic=%q,partition=\"%d\"}", id, topic, partition)
			fmt.Printf("kafka_consumergroup_current_offset%s %d\n", at, block.Offset)
			fmt.Printf("kafka_consumergroup_lag%s %d\n", at, lag)
		}
		fmt.Printf("kafka_consumergroup_lag_sum{consumergroup=%q,topic=%q} %d\n", id, topic, sum)
	}
}

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V2_0_0_0
	client, err := sarama.NewClient([]string{os.Args[1]}, config)
	check(err)
	ends := newestOffsets(client)
	for _, broker := range client.Brokers() {
		if err := broker.Open(config); err != sarama.ErrAlreadyConnected {
			check(err)
		}
		listed, err := broker.ListGroups(&sarama.ListGroupsRequest{})
		check(err)
		ids := []string{}
		for id := range listed.Groups {
			ids = append(ids, id)
		}
		described, err := broker.DescribeGroups(&sarama.DescribeGroupsRequest{Groups: ids})
		check(err)
		for _, group := range described.Groups {
			fmt.Printf("kafka_consumergroup_members{consumergroup=%q} %d\n", group.GroupId, len(group.Members))
			printGroup(broker, group.GroupId, ends)
		}
	}
}
