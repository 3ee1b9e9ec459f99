package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

const (
	batch        = 7
	chunkedBytes = 300_000
	chunkedKeys  = 8
	record       = `{"type": "record", "name": "Numbered", "fields": [{"name": "number", "type": "string"}]}`
)

// numbered is what is sent with a schema.
type numbered struct {
	Number string `json:"number" avro:"number"`
}

// keyShared is what a worker of a Key_Shared subscription does, each tried as the Python program's of that name.
var keyShared = map[string]trial{
	"key_shared":        deal{producing: single()}.run,
	"mixed_batches":     deal{producing: batches(pulsar.DefaultBatchBuilder)}.run,
	"key_batches":       deal{producing: batches(pulsar.KeyBasedBatchBuilder)}.run,
	"lz4":               compressed(pulsar.LZ4),
	"zlib":              compressed(pulsar.ZLib),
	"zstd":              compressed(pulsar.ZSTD),
	"snappy":            compressed(pulsar.SNAPPY),
	"chunks":            chunks().run,
	"partitioned":       deal{producing: single()}.run,
	"topics":            severalTopics,
	"pattern":           pattern,
	"sticky":            sticky,
	"out_of_order":      outOfOrder,
	"negative_ack":      negativeAck,
	"ack_timeout":       missing("no acknowledgement timeout"),
	"dead_letter":       deadLetter,
	"retry_letter":      retryLetter,
	"delayed":           delayed,
	"seek_id":           seekID,
	"seek_time":         seekTime,
	"unsubscribe":       unsubscribe,
	"last_message_id":   lastMessageID,
	"schema_string":     schemaString,
	"schema_json":       typed(func() pulsar.Schema { return pulsar.NewJSONSchema(record, nil) }),
	"schema_avro":       typed(func() pulsar.Schema { return pulsar.NewAvroSchema(record, nil) }),
	"encryption":        encryption,
	"cumulative_ack":    cumulativeAck,
	"transactional_ack": transactionalAck,
	"non_persistent":    nonPersistent,
}

func missing(what string) trial {
	return func(*scene) (string, error) { return "", fmt.Errorf("%w: %s", errMissing, what) }
}

func batches(builder pulsar.BatcherBuilderType) pulsar.ProducerOptions {
	return pulsar.ProducerOptions{
		BatchingMaxMessages:     batch,
		BatchingMaxPublishDelay: time.Second,
		BatcherBuilderType:      builder,
	}
}

func compressed(codec pulsar.CompressionType) trial {
	options := single()
	options.CompressionType = codec
	return deal{producing: options, sizeBytes: 200}.run
}

func chunks() deal {
	options := single()
	options.EnableChunking = true
	return deal{producing: options, sizeBytes: chunkedBytes, keys: chunkedKeys}
}

func severalTopics(s *scene) (string, error) {
	names := []string{s.topic + "-1", s.topic + "-2"}
	subscribe := func(_ string, options *pulsar.ConsumerOptions) { options.Topic, options.Topics = "", names }
	return deal{producing: single(), topics: names, consuming: subscribe}.run(s)
}

func pattern(s *scene) (string, error) {
	names := []string{s.topic + "-1", s.topic + "-2"}
	for _, name := range names {
		producer, err := s.producer(pulsar.ProducerOptions{Topic: name})
		if err != nil {
			return "", err
		}
		producer.Close()
	}
	subscribe := func(_ string, options *pulsar.ConsumerOptions) {
		options.Topic, options.TopicsPattern = "", s.topic+"-.*"
	}
	return deal{producing: single(), topics: names, consuming: subscribe}.run(s)
}

func sticky(s *scene) (string, error) {
	halves := map[string][]int{"a": {0, 32_767}, "b": {32_768, 65_535}}
	return deal{producing: single(), consuming: func(name string, options *pulsar.ConsumerOptions) {
		options.KeySharedPolicy, _ = pulsar.NewKeySharedPolicySticky(halves[name])
	}}.run(s)
}

func outOfOrder(s *scene) (string, error) {
	return deal{producing: single(), consuming: func(_ string, options *pulsar.ConsumerOptions) {
		options.KeySharedPolicy = &pulsar.KeySharedPolicy{AllowOutOfOrderDelivery: true}
	}}.run(s)
}

func schemaString(s *scene) (string, error) {
	options := single()
	options.Schema = pulsar.NewStringSchema(nil)
	return deal{
		producing: options,
		consuming: func(_ string, options *pulsar.ConsumerOptions) { options.Schema = pulsar.NewStringSchema(nil) },
		encode:    func(number string) *pulsar.ProducerMessage { return &pulsar.ProducerMessage{Value: number} },
		decode: func(message pulsar.Message) (string, error) {
			value := new(string)
			err := message.GetSchemaValue(&value)
			return *value, err
		},
	}.run(s)
}

func typed(schema func() pulsar.Schema) trial {
	return func(s *scene) (string, error) {
		options := single()
		options.Schema = schema()
		return deal{
			producing: options,
			consuming: func(_ string, options *pulsar.ConsumerOptions) { options.Schema = schema() },
			encode: func(number string) *pulsar.ProducerMessage {
				return &pulsar.ProducerMessage{Value: &numbered{number}}
			},
			decode: func(message pulsar.Message) (string, error) {
				value := numbered{}
				err := message.GetSchemaValue(&value)
				return value.Number, err
			},
		}.run(s)
	}
}

func encryption(s *scene) (string, error) {
	reader := crypto.NewFileKeyReader(s.place.keys+"/public.pem", s.place.keys+"/private.pem")
	options := single()
	options.Encryption = &pulsar.ProducerEncryptionInfo{KeyReader: reader, Keys: []string{"app"}}
	return deal{producing: options, consuming: func(_ string, options *pulsar.ConsumerOptions) {
		options.Decryption = &pulsar.MessageDecryptionInfo{KeyReader: reader}
	}}.run(s)
}

func nonPersistent(s *scene) (string, error) {
	s.topic = strings.Replace(s.topic, "persistent://", "non-persistent://", 1)
	return deal{producing: single()}.run(s)
}
