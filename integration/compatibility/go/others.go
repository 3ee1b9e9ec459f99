package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	count = 10
	// strangerMax is how long a stranger tries to come in.
	strangerMax = 5 * time.Second
	// wrongToken is signed by nobody.
	wrongToken = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// others is what is not Key_Shared, each tried as the Python program's of that name.
var others = map[string]trial{
	"shared":               shared,
	"exclusive":            exclusive,
	"failover":             failover,
	"cumulative_exclusive": cumulativeExclusive,
	"reader":               reader,
	"table_view":           tableView,
	"exclusive_producer":   exclusiveProducer,
	"transactions":         transactions,
	"token":                token,
}

func shared(s *scene) (string, error) {
	kind := pulsar.Shared
	return deal{producing: single(), kind: &kind, unordered: true}.run(s)
}

func exclusive(s *scene) (string, error) {
	options := s.worker()
	options.Type = pulsar.Exclusive
	consumer, _, err := s.begin(options, count)
	if err != nil {
		return "", err
	}
	if _, err := s.subscribe(options); err == nil {
		return "", fmt.Errorf("a second consumer was let in")
	}
	return "in order", expectInOrder(consumer, count)
}

func failover(s *scene) (string, error) {
	consumers := map[string]pulsar.Consumer{}
	options := s.worker()
	options.Type = pulsar.Failover
	for _, name := range workerNames {
		options.Name = name
		consumer, err := s.subscribe(options)
		if err != nil {
			return "", err
		}
		consumers[name] = consumer
	}
	producer, err := s.producer(single())
	if err != nil {
		return "", err
	}
	if err := sendNumbers(producer, 0, 1); err != nil {
		return "", err
	}
	active, err := whoReceives(consumers)
	if err != nil {
		return "", err
	}
	consumers[active].Close()
	delete(consumers, active)
	if err := sendNumbers(producer, 1, 1); err != nil {
		return "", err
	}
	for _, other := range consumers {
		message, err := receive(other)
		if err != nil {
			return "", err
		}
		if text(message) != "1" {
			return "", fmt.Errorf("the other got %s", text(message))
		}
	}
	return "taken over", nil
}

func whoReceives(consumers map[string]pulsar.Consumer) (string, error) {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		for name, consumer := range consumers {
			if message, err := receiveWithin(consumer, slice); err == nil {
				return name, consumer.Ack(message)
			}
		}
	}
	return "", fmt.Errorf("nobody got the message")
}

func cumulativeExclusive(s *scene) (string, error) {
	return acknowledgeCumulatively(s, pulsar.Exclusive)
}

func reader(s *scene) (string, error) {
	producer, err := s.producer(single())
	if err != nil {
		return "", err
	}
	if err := sendNumbers(producer, 0, count); err != nil {
		return "", err
	}
	options := pulsar.ReaderOptions{Topic: s.topic, StartMessageID: pulsar.EarliestMessageID()}
	reading, err := s.client.CreateReader(options)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	messages := []pulsar.Message{}
	for reading.HasNext() {
		message, err := reading.Next(limited)
		if err != nil {
			return "", err
		}
		messages = append(messages, message)
	}
	if !slices.Equal(texts(messages), numbers(0, count)) {
		return "", fmt.Errorf("%v came", texts(messages))
	}
	// This client refuses by itself to seek to the beginning.
	if err := reading.SeekByTime(messages[0].PublishTime()); err != nil {
		return "", err
	}
	first, err := reading.Next(limited)
	if err == nil && text(first) != "0" {
		err = fmt.Errorf("a seek went to %s", text(first))
	}
	return "read", err
}

func tableView(s *scene) (string, error) {
	options := single()
	options.Schema = pulsar.NewStringSchema(nil)
	producer, err := s.producer(options)
	if err != nil {
		return "", err
	}
	for number := range count {
		message := &pulsar.ProducerMessage{Key: fmt.Sprintf("k%d", number%3), Value: strconv.Itoa(number)}
		if _, err := producer.Send(context.Background(), message); err != nil {
			return "", err
		}
	}
	view, err := s.client.CreateTableView(pulsar.TableViewOptions{
		Topic:           s.topic,
		Schema:          pulsar.NewStringSchema(nil),
		SchemaValueType: reflect.TypeFor[*string](),
	})
	if err != nil {
		return "", err
	}
	latest := map[string]string{}
	for key, value := range view.Entries() {
		latest[key] = *value.(*string)
	}
	if !maps.Equal(latest, map[string]string{"k0": "9", "k1": "7", "k2": "8"}) {
		return "", fmt.Errorf("%v", latest)
	}
	return "is right", nil
}

func exclusiveProducer(s *scene) (string, error) {
	options := single()
	options.ProducerAccessMode = pulsar.ProducerAccessModeWaitForExclusive
	owner, err := s.producer(options)
	if err != nil {
		return "", err
	}
	made := make(chan pulsar.Producer, 1)
	failed := make(chan error, 1)
	go func() {
		producer, err := s.producer(options)
		if err != nil {
			failed <- err
			return
		}
		made <- producer
	}()
	if err := sendNumbers(owner, 0, count); err != nil {
		return "", err
	}
	if len(made) > 0 {
		return "", fmt.Errorf("two own the topic")
	}
	owner.Close()
	select {
	case producer := <-made:
		err = sendNumbers(producer, count, count)
	case err = <-failed:
	case <-time.After(patience):
		err = fmt.Errorf("who waited was not promoted")
	}
	if err != nil {
		return "", err
	}
	alone := s.worker()
	alone.Type = pulsar.Exclusive
	consumer, err := s.subscribe(alone)
	if err != nil {
		return "", err
	}
	return "one after the other", expectInOrder(consumer, 2*count)
}

// transactions wants that what an aborted one wrote never shows, and that what a committed one took is gone.
func transactions(s *scene) (string, error) {
	from := s.worker()
	from.Type = pulsar.Shared
	source, _, err := s.begin(from, 2)
	if err != nil {
		return "", err
	}
	to := from
	to.Topic += "-target"
	target, err := s.subscribe(to)
	if err != nil {
		return "", err
	}
	writer, err := s.producer(pulsar.ProducerOptions{Topic: to.Topic, DisableBatching: true})
	if err != nil {
		return "", err
	}
	first, err := receive(source)
	if err != nil {
		return "", err
	}
	for _, word := range []string{"aborted", "committed"} {
		if err := transact(s, word, writer, source, first); err != nil {
			return "", err
		}
	}
	seen, err := receive(target)
	if err != nil {
		return "", err
	}
	source.Close()
	again, err := s.subscribe(from)
	if err != nil {
		return "", err
	}
	left, err := receive(again)
	if err == nil && (text(seen) != "committed" || text(left) != "1") {
		err = fmt.Errorf("%s was seen first, %s came again", text(seen), text(left))
	}
	return "taken and written", err
}

// transact writes a word in a transaction, and with "committed" takes the message too.
func transact(s *scene, word string, writer pulsar.Producer, source pulsar.Consumer, message pulsar.Message) error {
	transaction, err := s.client.NewTransaction(time.Minute)
	if err != nil {
		return err
	}
	written := &pulsar.ProducerMessage{Payload: []byte(word), Transaction: transaction}
	if _, err := writer.Send(context.Background(), written); err != nil {
		return err
	}
	if word == "aborted" {
		return transaction.Abort(context.Background())
	}
	if err := source.AckWithTxn(message, transaction); err != nil {
		return err
	}
	return transaction.Commit(context.Background())
}

func token(s *scene) (string, error) {
	producer, err := s.producer(single())
	if err != nil {
		return "", err
	}
	if err := sendNumbers(producer, 0, 1); err != nil {
		return "", err
	}
	stranger, err := s.place.connect(wrongToken, strangerMax)
	if err != nil {
		return "a stranger was refused", nil
	}
	defer stranger.Close()
	if _, err := stranger.CreateProducer(pulsar.ProducerOptions{Topic: s.topic}); err == nil {
		return "", fmt.Errorf("a stranger was let in")
	}
	return "a stranger was refused", nil
}

func expectInOrder(consumer pulsar.Consumer, count int) error {
	messages, err := receiveNumbers(consumer, count, true)
	if err == nil && !slices.Equal(texts(messages), numbers(0, count)) {
		err = fmt.Errorf("%v came", texts(messages))
	}
	return err
}
