package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	delay = 4 * time.Second
	// early is what the broker may be before time: it looks at delayed messages once a second, and gives out what is due
	// until the next look.
	early = 2 * time.Second
)

func negativeAck(s *scene) (string, error) {
	options := s.worker()
	options.NackRedeliveryDelay = 100 * time.Millisecond
	consumer, _, err := s.begin(options, 1)
	if err != nil {
		return "", err
	}
	message, err := receive(consumer)
	if err != nil {
		return "", err
	}
	consumer.Nack(message)
	again, err := receive(consumer)
	if err != nil {
		return "", err
	}
	if again.RedeliveryCount() == 0 {
		return "", fmt.Errorf("its redelivery count is %d", again.RedeliveryCount())
	}
	return "came again", consumer.Ack(again)
}

func deadLetter(s *scene) (string, error) {
	dead := s.topic + "-dead"
	grave := s.worker()
	grave.Topic, grave.Type = dead, pulsar.Shared
	graves, err := s.subscribe(grave)
	if err != nil {
		return "", err
	}
	options := s.worker()
	options.NackRedeliveryDelay = 100 * time.Millisecond
	options.DLQ = &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: dead}
	consumer, _, err := s.begin(options, 1)
	if err != nil {
		return "", err
	}
	for range 2 {
		message, err := receive(consumer)
		if err != nil {
			return "", err
		}
		consumer.Nack(message)
	}
	message, err := receive(graves)
	if err != nil {
		return "", fmt.Errorf("nothing came to the dead letter topic: %w", err)
	}
	return text(message) + " is dead", nil
}

func retryLetter(s *scene) (string, error) {
	options := s.worker()
	options.RetryEnable = true
	// This client asks for the answer to its own acknowledgement where it keeps that from being read.
	options.AckWithResponse = false
	options.DLQ = &pulsar.DLQPolicy{
		MaxDeliveries:    4,
		RetryLetterTopic: s.topic + "-retry",
		DeadLetterTopic:  s.topic + "-dead",
	}
	consumer, _, err := s.begin(options, 1)
	if err != nil {
		return "", err
	}
	message, err := receive(consumer)
	if err != nil {
		return "", err
	}
	consumer.ReconsumeLater(message, 0)
	again, err := receive(consumer)
	if err != nil {
		return "", err
	}
	if !strings.HasSuffix(again.Topic(), "-retry") {
		return "", fmt.Errorf("it came from %s", again.Topic())
	}
	return "came again", consumer.Ack(again)
}

func delayed(s *scene) (string, error) {
	consumer, producer, err := s.begin(s.worker(), 0)
	if err != nil {
		return "", err
	}
	sent := time.Now()
	late := &pulsar.ProducerMessage{Key: "a", Payload: []byte("late"), DeliverAfter: delay}
	if _, err := producer.Send(context.Background(), late); err != nil {
		return "", err
	}
	for came := ""; came != "late"; {
		if time.Since(sent) > patience {
			return "", fmt.Errorf("it never came")
		}
		now := &pulsar.ProducerMessage{Key: "b", Payload: []byte("now")}
		if _, err := producer.Send(context.Background(), now); err != nil {
			return "", err
		}
		messages, err := receiveNumbers(consumer, 1, true)
		if err != nil {
			return "", err
		}
		came = text(messages[0])
	}
	if time.Since(sent) < delay-early {
		return "", fmt.Errorf("it came at once")
	}
	return "came later", nil
}

// seekID goes to two messages; this client refuses by itself to seek to the beginning.
func seekID(s *scene) (string, error) {
	consumer, _, err := s.begin(s.worker(), 10)
	if err != nil {
		return "", err
	}
	messages, err := receiveNumbers(consumer, 10, false)
	if err != nil {
		return "", err
	}
	for _, number := range []int{4, 0} {
		is := func(message pulsar.Message) bool { return text(message) == strconv.Itoa(number) }
		if err := consumer.Seek(messages[slices.IndexFunc(messages, is)].ID()); err != nil {
			return "", err
		}
		if err := expectAll(consumer, number+1, 10); err != nil {
			return "", err
		}
	}
	return "went back", nil
}

func seekTime(s *scene) (string, error) {
	consumer, producer, err := s.begin(s.worker(), 5)
	if err != nil {
		return "", err
	}
	messages, err := receiveNumbers(consumer, 5, false)
	if err != nil {
		return "", err
	}
	for _, message := range messages {
		time.Sleep(time.Until(message.PublishTime().Add(2 * time.Millisecond)))
	}
	between := time.Now()
	if err := sendNumbers(producer, 5, 5); err != nil {
		return "", err
	}
	if _, err := receiveNumbers(consumer, 5, false); err != nil {
		return "", err
	}
	if err := consumer.SeekByTime(between); err != nil {
		return "", err
	}
	return "went back", expectAll(consumer, 5, 10)
}

// expectAll receives as many numbers as there are from first to last, and wants these, in any order.
func expectAll(consumer pulsar.Consumer, first, last int) error {
	messages, err := receiveNumbers(consumer, last-first, false)
	if err != nil {
		return err
	}
	found, wanted := texts(messages), numbers(first, last)
	slices.Sort(found)
	slices.Sort(wanted)
	if !slices.Equal(found, wanted) {
		return fmt.Errorf("%v came", found)
	}
	return nil
}

func unsubscribe(s *scene) (string, error) {
	consumer, _, err := s.begin(s.worker(), 3)
	if err != nil {
		return "", err
	}
	if _, err := receiveNumbers(consumer, 3, true); err != nil {
		return "", err
	}
	if err := consumer.Unsubscribe(); err != nil {
		return "", err
	}
	again, err := s.subscribe(s.worker())
	if err != nil {
		return "", err
	}
	return "began anew", expectAll(again, 0, 3)
}

func lastMessageID(s *scene) (string, error) {
	consumer, producer, err := s.begin(s.worker(), 1)
	if err != nil {
		return "", err
	}
	sent, err := producer.Send(context.Background(), &pulsar.ProducerMessage{Key: "a", Payload: []byte("1")})
	if err != nil {
		return "", err
	}
	found, err := consumer.GetLastMessageIDs()
	if err != nil {
		return "", err
	}
	if found[0].LedgerID() != sent.LedgerID() || found[0].EntryID() != sent.EntryID() {
		return "", fmt.Errorf("%v is not %v", found[0], sent)
	}
	return "is the broker's", nil
}

func cumulativeAck(s *scene) (string, error) { return acknowledgeCumulatively(s, pulsar.KeyShared) }

// acknowledgeCumulatively acknowledges all but the last, and wants that alone to come again.
func acknowledgeCumulatively(s *scene, kind pulsar.SubscriptionType) (string, error) {
	options := s.worker()
	options.Type = kind
	consumer, _, err := s.begin(options, 3)
	if err != nil {
		return "", err
	}
	messages, err := receiveNumbers(consumer, 3, false)
	if err != nil {
		return "", err
	}
	if err := consumer.AckCumulative(messages[1]); err != nil {
		return "", err
	}
	consumer.Close()
	again, err := s.subscribe(options)
	if err != nil {
		return "", err
	}
	message, err := receive(again)
	if err != nil {
		return "", err
	}
	if text(message) != strconv.Itoa(2) {
		return "", fmt.Errorf("more than the last came again")
	}
	return "acknowledged", nil
}

func transactionalAck(s *scene) (string, error) {
	consumer, _, err := s.begin(s.worker(), 1)
	if err != nil {
		return "", err
	}
	message, err := receive(consumer)
	if err != nil {
		return "", err
	}
	transaction, err := s.client.NewTransaction(time.Minute)
	if err != nil {
		return "", err
	}
	if err := consumer.AckWithTxn(message, transaction); err != nil {
		return "", err
	}
	return "acknowledged", transaction.Commit(context.Background())
}
