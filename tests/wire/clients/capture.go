// Sends the messages of capture.py with Pulsar's own Go client, or takes and acknowledges what a broker delivers.
// Arguments: service URL, topic, then "produce", codec, batching, lines a message, or "consume", messages to take.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

var codecs = map[string]pulsar.CompressionType{
	"none": pulsar.NoCompression, "lz4": pulsar.LZ4, "zlib": pulsar.ZLib, "zstd": pulsar.ZSTD, "snappy": pulsar.SNAPPY,
}

func messages(lines int) []pulsar.ProducerMessage {
	text := func(line string) []byte { return []byte(strings.Repeat(line, lines)) }
	return []pulsar.ProducerMessage{
		{Payload: text("order 0, "), Key: "alice"},
		{Payload: text("order 1, "), Key: "bob"},
		{Payload: text("order 2, "), Key: "alice", Properties: map[string]string{"trace": "t-2"}},
		{Payload: text("order 3, "), Key: "carol", OrderingKey: "bob"},
		{Payload: text("order 4, "), Key: "bob", EventTime: time.UnixMilli(1_700_000_000_000)},
		{Payload: text("order 5, ")},
		{Payload: []byte{}, Key: "carol"},
	}
}

func main() {
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: os.Args[1]})
	check(err)
	defer client.Close()
	number, err := strconv.Atoi(os.Args[len(os.Args)-1])
	check(err)
	if os.Args[3] == "produce" {
		produce(client, os.Args[2], os.Args[4], os.Args[5], number)
	} else {
		consume(client, os.Args[2], number)
	}
}

func produce(client pulsar.Client, topic, codec, batching string, lines int) {
	options := pulsar.ProducerOptions{
		Topic: topic, Name: "shop", CompressionType: codecs[codec], BatchingMaxPublishDelay: time.Minute,
		DisableBatching: batching == "single",
	}
	if batching == "keybased" {
		options.BatcherBuilderType = pulsar.KeyBasedBatchBuilder
	}
	producer, err := client.CreateProducer(options)
	check(err)
	sent := messages(lines)
	for index := range sent {
		producer.SendAsync(context.Background(), &sent[index], func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			check(err)
		})
	}
	check(producer.Flush())
	producer.Close()
}

func consume(client pulsar.Client, topic string, count int) {
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "audit", Name: "worker-1", Type: pulsar.KeyShared, ReceiverQueueSize: 100,
	})
	check(err)
	for taken := 0; taken < count; taken++ {
		message, err := consumer.Receive(context.Background())
		check(err)
		fmt.Printf("%v\t%s\t%s\n", message.ID(), message.Key(), message.Payload())
		check(consumer.Ack(message))
	}
	consumer.Close()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
