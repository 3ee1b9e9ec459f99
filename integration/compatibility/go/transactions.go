package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	transactionMessages = 5
	transactionTimeout  = 5 * time.Second
	quietFor            = 2 * time.Second
)

// inTransactions are trials of acknowledgements in transactions; each tries what the Java program's of that name tries.
var inTransactions = map[string]trial{
	"transaction_window":  abortedInWindow,
	"transaction_whole":   wholeBatch,
	"transaction_twice":   acknowledgedTwice,
	"transaction_abort":   func(s *scene) (string, error) { return handedOver(s, "abort") },
	"transaction_commit":  func(s *scene) (string, error) { return handedOver(s, "commit") },
	"transaction_timeout": func(s *scene) (string, error) { return handedOver(s, "timeout") },
}

// watcher notes what a consumer gets.
type watcher struct {
	consumer pulsar.Consumer
	seen     []string
}

func (w *watcher) next() (pulsar.Message, error) {
	message, err := receive(w.consumer)
	if err == nil {
		w.seen = append(w.seen, text(message))
	}
	return message, err
}

// take receives so many messages and acknowledges them, in a transaction if there is one.
func (w *watcher) take(count int, transaction pulsar.Transaction) error {
	for range count {
		message, err := w.next()
		if err != nil {
			return err
		}
		if transaction != nil {
			err = w.consumer.AckWithTxn(message, transaction)
		} else {
			err = w.consumer.Ack(message)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// quiet is what comes within a while, each with a space before it.
func (w *watcher) quiet() (string, error) {
	found := ""
	for {
		message, err := receiveWithin(w.consumer, quietFor)
		if errors.Is(err, context.DeadlineExceeded) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		found += " " + text(message)
		if err := w.consumer.Ack(message); err != nil {
			return found, err
		}
	}
}

func (w *watcher) all() string { return strings.Join(w.seen, " ") }

func sendOfOneKey(producer pulsar.Producer, first, count int) error {
	told := func(pulsar.MessageID, *pulsar.ProducerMessage, error) {}
	for number := first; number < first+count; number++ {
		message := &pulsar.ProducerMessage{Key: "k", Payload: []byte(strconv.Itoa(number))}
		producer.SendAsync(context.Background(), message, told)
	}
	return producer.FlushWithCtx(context.Background())
}

func (s *scene) watched(
	options pulsar.ConsumerOptions, producing pulsar.ProducerOptions, count int,
) (*watcher, pulsar.Producer, error) {
	consumer, err := s.subscribe(options)
	if err != nil {
		return nil, nil, err
	}
	producer, err := s.producer(producing)
	if err != nil {
		return nil, nil, err
	}
	return &watcher{consumer: consumer}, producer, sendOfOneKey(producer, 0, count)
}

func abortedInWindow(s *scene) (string, error) {
	options := s.worker()
	options.Properties = map[string]string{"keyline.key-window": "2"}
	watched, _, err := s.watched(options, single(), transactionMessages)
	if err != nil {
		return "", err
	}
	transaction, err := s.client.NewTransaction(time.Minute)
	if err == nil {
		err = watched.take(2, transaction)
	}
	if err == nil {
		err = transaction.Abort(context.Background())
	}
	if err == nil {
		err = watched.take(transactionMessages, nil)
	}
	return watched.all(), err
}

// wholeBatch is aborted, and committed when it has come again. This client acknowledges a batch with its last message.
func wholeBatch(s *scene) (string, error) {
	watched, _, err := s.watched(s.worker(), inOneBatch(), transactionMessages)
	if err != nil {
		return "", err
	}
	aborted, err := s.client.NewTransaction(time.Minute)
	if err == nil {
		err = watched.take(transactionMessages, aborted)
	}
	if err == nil {
		err = aborted.Abort(context.Background())
	}
	if err != nil {
		return watched.all(), err
	}
	committed, err := s.client.NewTransaction(time.Minute)
	if err == nil {
		err = watched.take(transactionMessages, committed)
	}
	if err == nil {
		err = committed.Commit(context.Background())
	}
	if err != nil {
		return watched.all(), err
	}
	more, err := watched.quiet()
	return watched.all() + more, err
}

func acknowledgedTwice(s *scene) (string, error) {
	watched, _, err := s.watched(s.worker(), single(), 1)
	if err != nil {
		return "", err
	}
	first, err := s.client.NewTransaction(time.Minute)
	if err != nil {
		return "", err
	}
	second, err := s.client.NewTransaction(time.Minute)
	if err != nil {
		return "", err
	}
	message, err := watched.next()
	if err == nil {
		err = watched.consumer.AckWithTxn(message, first)
	}
	if err != nil {
		return "", err
	}
	if err := watched.consumer.AckWithTxn(message, second); err == nil {
		return "acknowledged twice", nil
	}
	return "refused", first.Commit(context.Background())
}

func handedOver(s *scene, end string) (string, error) {
	watched, producer, err := s.watched(s.worker(), single(), 1)
	if err != nil {
		return "", err
	}
	timeout := patience
	if end == "timeout" {
		timeout = transactionTimeout
	}
	transaction, err := s.client.NewTransaction(timeout)
	if err == nil {
		err = watched.take(1, transaction)
	}
	if err != nil {
		return "", err
	}
	consumer, err := s.subscribe(s.worker())
	if err != nil {
		return "", err
	}
	watched.consumer.Close()
	second := &watcher{consumer: consumer}
	if err := sendOfOneKey(producer, 1, 2); err != nil {
		return "", err
	}
	before, err := second.quiet()
	left := 3 - len(strings.ReplaceAll(before, " ", ""))
	switch {
	case err != nil:
	case end == "abort":
		err = transaction.Abort(context.Background())
	case end == "commit":
		left--
		err = transaction.Commit(context.Background())
	}
	if err == nil {
		err = second.take(left, nil)
	}
	if err != nil {
		return before + " | " + second.all(), err
	}
	after, err := second.quiet()
	return strings.TrimSpace(fmt.Sprintf("%s | %s%s", before, second.all(), after)), err
}
