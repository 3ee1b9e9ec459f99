package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

const (
	keyCount     = 20
	rounds       = 3
	subscription = "s"
	// patience is for every answer and every message: only a fault exhausts it, however busy the machine.
	patience = 2 * time.Minute
	// slice is how long one of several consumers is listened to before the next.
	slice = 10 * time.Millisecond
)

var workerNames = []string{"a", "b"}

// place is where to connect, and as whom.
type place struct{ serviceURL, prefix, keys, token string }

func (p place) connect(token string, patience time.Duration) (pulsar.Client, error) {
	return pulsar.NewClient(pulsar.ClientOptions{
		URL:               p.serviceURL,
		Authentication:    pulsar.NewAuthenticationToken(token),
		EnableTransaction: true,
		OperationTimeout:  patience,
		Logger:            log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
}

// scene is one feature's own client and topics.
type scene struct {
	place  place
	topic  string
	client pulsar.Client
}

func newScene(place place, feature string) (*scene, error) {
	client, err := place.connect(place.token, patience)
	return &scene{place, place.prefix + feature, client}, err
}

// worker describes a consumer of the scene's topic from its beginning, by default Key_Shared. Its acknowledgements are
// answered: what is on its way when it closes or seeks would blur what came of it.
func (s *scene) worker() pulsar.ConsumerOptions {
	return pulsar.ConsumerOptions{
		Topic:                       s.topic,
		SubscriptionName:            subscription,
		Type:                        pulsar.KeyShared,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
		AckWithResponse:             true,
	}
}

func (s *scene) subscribe(options pulsar.ConsumerOptions) (pulsar.Consumer, error) {
	return s.client.Subscribe(options)
}

// single describes a producer without batches.
func single() pulsar.ProducerOptions { return pulsar.ProducerOptions{DisableBatching: true} }

func (s *scene) producer(options pulsar.ProducerOptions) (pulsar.Producer, error) {
	if options.Topic == "" {
		options.Topic = s.topic
	}
	options.SendTimeout = patience
	return s.client.CreateProducer(options)
}

// begin makes what most trials need: a consumer, and so many messages of a few keys, each with its number.
func (s *scene) begin(options pulsar.ConsumerOptions, count int) (pulsar.Consumer, pulsar.Producer, error) {
	consumer, err := s.subscribe(options)
	if err != nil {
		return nil, nil, err
	}
	producer, err := s.producer(single())
	if err != nil {
		return nil, nil, err
	}
	return consumer, producer, sendNumbers(producer, 0, count)
}

func sendNumbers(producer pulsar.Producer, first, count int) error {
	for number := first; number < first+count; number++ {
		message := &pulsar.ProducerMessage{Key: fmt.Sprintf("k%d", number%3), Payload: []byte(strconv.Itoa(number))}
		if _, err := producer.Send(context.Background(), message); err != nil {
			return err
		}
	}
	return nil
}

func receive(consumer pulsar.Consumer) (pulsar.Message, error) {
	return receiveWithin(consumer, patience)
}

func receiveWithin(consumer pulsar.Consumer, longest time.Duration) (pulsar.Message, error) {
	limited, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	return consumer.Receive(limited)
}

func receiveNumbers(consumer pulsar.Consumer, count int, acknowledge bool) ([]pulsar.Message, error) {
	messages := []pulsar.Message{}
	for range count {
		message, err := receive(consumer)
		if err != nil {
			return nil, fmt.Errorf("%d of %d messages came: %w", len(messages), count, err)
		}
		messages = append(messages, message)
		if !acknowledge {
			continue
		}
		if err := consumer.Ack(message); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

func text(message pulsar.Message) string { return strings.TrimRight(string(message.Payload()), ".") }

func texts(messages []pulsar.Message) []string {
	found := []string{}
	for _, message := range messages {
		found = append(found, text(message))
	}
	return found
}

func numbers(first, last int) []string {
	wanted := []string{}
	for number := first; number < last; number++ {
		wanted = append(wanted, strconv.Itoa(number))
	}
	return wanted
}

// deal says how keyed messages go to two workers. Most features are one of its fields.
type deal struct {
	kind *pulsar.SubscriptionType
	// topics are where to produce, by default the scene's topic; each has keys of its own.
	topics    []string
	producing pulsar.ProducerOptions
	// consuming changes a worker's options, by its name.
	consuming func(string, *pulsar.ConsumerOptions)
	// encode and decode stand between a number and what is sent and received.
	encode    func(string) *pulsar.ProducerMessage
	decode    func(pulsar.Message) (string, error)
	sizeBytes int
	keys      int
	unordered bool
}

type received struct{ worker, key, number string }

// run sends: each key must come whole, in order, to one of two workers, and both get some.
func (d deal) run(s *scene) (string, error) {
	if d.keys == 0 {
		d.keys = keyCount
	}
	workers := map[string]pulsar.Consumer{}
	for _, name := range workerNames {
		options := s.worker()
		options.Name = name
		if d.kind != nil {
			options.Type = *d.kind
		}
		if d.consuming != nil {
			d.consuming(name, &options)
		}
		consumer, err := s.subscribe(options)
		if err != nil {
			return "", err
		}
		workers[name] = consumer
	}
	if err := d.send(s); err != nil {
		return "", err
	}
	all, err := d.collect(workers)
	if err == nil && !d.unordered {
		err = audit(all, d.keys)
	}
	return fmt.Sprintf("%d messages", len(all)), err
}

func (d deal) send(s *scene) error {
	if d.topics == nil {
		d.topics = []string{s.topic}
	}
	producers := []pulsar.Producer{}
	for _, topic := range d.topics {
		options := d.producing
		options.Topic = topic
		producer, err := s.producer(options)
		if err != nil {
			return err
		}
		producers = append(producers, producer)
	}
	var failed error
	var telling sync.Mutex
	told := func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
		telling.Lock()
		defer telling.Unlock()
		if err != nil {
			failed = err
		}
	}
	for number := range rounds {
		for key := range d.keys {
			message := d.message(strconv.Itoa(number))
			message.Key = fmt.Sprintf("k%d", key)
			producers[key%len(producers)].SendAsync(context.Background(), message, told)
		}
	}
	for _, producer := range producers {
		if err := producer.FlushWithCtx(context.Background()); err != nil {
			return err
		}
	}
	telling.Lock()
	defer telling.Unlock()
	return failed
}

func (d deal) message(number string) *pulsar.ProducerMessage {
	if d.encode != nil {
		return d.encode(number)
	}
	return &pulsar.ProducerMessage{Payload: []byte(number + strings.Repeat(".", d.sizeBytes))}
}

func (d deal) collect(workers map[string]pulsar.Consumer) ([]received, error) {
	all := []received{}
	deadline := time.Now().Add(patience)
	for len(all) < d.keys*rounds {
		if time.Now().After(deadline) {
			return all, fmt.Errorf("%d of %d messages came", len(all), d.keys*rounds)
		}
		for name, consumer := range workers {
			message, err := receiveWithin(consumer, slice)
			if err != nil {
				continue
			}
			number := text(message)
			if d.decode != nil {
				if number, err = d.decode(message); err != nil {
					return all, err
				}
			}
			all = append(all, received{name, message.Key(), number})
			if err := consumer.Ack(message); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

func audit(all []received, keys int) error {
	owners, found, busy := map[string]map[string]bool{}, map[string][]string{}, map[string]bool{}
	for _, one := range all {
		if owners[one.key] == nil {
			owners[one.key] = map[string]bool{}
		}
		owners[one.key][one.worker] = true
		found[one.key] = append(found[one.key], one.number)
		busy[one.worker] = true
	}
	split, wrong := 0, 0
	for key := range owners {
		if len(owners[key]) > 1 {
			split++
		}
		if !slices.Equal(found[key], numbers(0, rounds)) {
			wrong++
		}
	}
	switch {
	case len(owners) != keys:
		return fmt.Errorf("%d of %d keys came", len(owners), keys)
	case split > 0:
		return fmt.Errorf("%d of %d keys were at two workers", split, keys)
	case wrong > 0:
		return fmt.Errorf("%d of %d keys were out of order", wrong, keys)
	case len(busy) != len(workerNames):
		return fmt.Errorf("one worker got nothing")
	}
	return nil
}
