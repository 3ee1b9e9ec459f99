package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	windowMessages = 5
	givenBack      = 2
	leaseTime      = 6 * time.Second
	askedAfter     = time.Second
	extensions     = 9
)

// windows are trials of key windows and ack leases; each tries what the Python program's of that name tries.
var windows = map[string]trial{
	"window_nack":  func(s *scene) (string, error) { return seenInWindow(s, single()) },
	"window_batch": func(s *scene) (string, error) { return seenInWindow(s, inOneBatch()) },
	"ack_lease":    lease,
}

func inOneBatch() pulsar.ProducerOptions {
	return pulsar.ProducerOptions{BatchingMaxMessages: windowMessages, BatchingMaxPublishDelay: time.Minute}
}

func seenInWindow(s *scene, producing pulsar.ProducerOptions) (string, error) {
	options := s.worker()
	options.Properties = map[string]string{"keyline.key-window": "1"}
	options.NackRedeliveryDelay = 100 * time.Millisecond
	consumer, err := s.subscribe(options)
	if err != nil {
		return "", err
	}
	producer, err := s.producer(producing)
	if err != nil {
		return "", err
	}
	told := func(pulsar.MessageID, *pulsar.ProducerMessage, error) {}
	for number := range windowMessages {
		message := &pulsar.ProducerMessage{Key: "k", Payload: []byte(strconv.Itoa(number))}
		producer.SendAsync(context.Background(), message, told)
	}
	if err := producer.FlushWithCtx(context.Background()); err != nil {
		return "", err
	}
	seen, nacks, acknowledged := []string{}, 0, map[string]bool{}
	for len(acknowledged) < windowMessages {
		message, err := receive(consumer)
		if err != nil {
			return strings.Join(seen, " "), err
		}
		number := text(message)
		seen = append(seen, number)
		if number == "0" && nacks < givenBack {
			nacks++
			consumer.Nack(message)
			continue
		}
		if err := consumer.Ack(message); err != nil {
			return strings.Join(seen, " "), err
		}
		acknowledged[number] = true
	}
	return strings.Join(seen, " "), nil
}

func lease(s *scene) (string, error) {
	options := s.worker()
	options.Properties = map[string]string{"keyline.ack-lease-ms": strconv.FormatInt(leaseTime.Milliseconds(), 10)}
	consumer, _, err := s.begin(options, 1)
	if err != nil {
		return "", err
	}
	if _, err := receive(consumer); err != nil {
		return "", err
	}
	for range extensions {
		if _, err := receiveWithin(consumer, askedAfter); err == nil {
			return "lost though extended", nil
		}
		if _, err := consumer.GetLastMessageIDs(); err != nil {
			return "", err
		}
	}
	again, err := receive(consumer)
	if err != nil {
		return "", err
	}
	return "extended, then lost", consumer.Ack(again)
}
