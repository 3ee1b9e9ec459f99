package main

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	windowMessages = 5
	givenBack      = 2
	leaseTime      = 6 * time.Second
	askedAfter     = time.Second
	extensions     = 9
	retryDelay     = 1500 * time.Millisecond
	retryDelayMax  = 3 * time.Second
)

// windows are trials of key windows, retry delays and ack leases; each tries what the Python program's of that name
// tries, or Java's.
var windows = map[string]trial{
	"window_nack":    func(s *scene) (string, error) { return seenInWindow(s, single(), nackedSoon, nil) },
	"window_batch":   func(s *scene) (string, error) { return seenInWindow(s, inOneBatch(), nackedSoon, nil) },
	"window_backoff": func(s *scene) (string, error) { return seenInWindow(s, inOneBatch(), backingOff, nil) },
	"retry_growing":  func(s *scene) (string, error) { return seenInWindow(s, single(), nackedSoon, growing) },
	"retry_capped":   func(s *scene) (string, error) { return seenInWindow(s, inOneBatch(), backingOff, capped) },
	"ack_lease":      lease,
	"late_ack":       func(s *scene) (string, error) { return lateAck(s, single()) },
	"late_batch":     func(s *scene) (string, error) { return lateAck(s, inOneBatch()) },
}

var growing = map[string]string{
	"keyline.retry-delay-ms":   milliseconds(retryDelay),
	"keyline.retry-multiplier": "2",
}

// capped would make the second delay longer than anybody waits here, were it not for the bound.
var capped = map[string]string{
	"keyline.retry-delay-ms":     milliseconds(retryDelay),
	"keyline.retry-multiplier":   "100",
	"keyline.retry-delay-max-ms": milliseconds(retryDelayMax),
}

// longestDelays are what either makes of the first delay and of the second.
var longestDelays = [givenBack]time.Duration{retryDelay, retryDelayMax}

// doubling is the client's own backoff: 100 ms, 200 ms and so on.
type doubling struct{}

func (doubling) Next(redeliveries uint32) time.Duration {
	return 100 * time.Millisecond << min(redeliveries, 3)
}

func nackedSoon(options *pulsar.ConsumerOptions) {
	options.NackRedeliveryDelay = 100 * time.Millisecond
}

func backingOff(options *pulsar.ConsumerOptions) { options.NackBackoffPolicy = doubling{} }

func milliseconds(duration time.Duration) string {
	return strconv.FormatInt(duration.Milliseconds(), 10)
}

func inOneBatch() pulsar.ProducerOptions {
	return pulsar.ProducerOptions{BatchingMaxMessages: windowMessages, BatchingMaxPublishDelay: time.Minute}
}

// seenInWindow is what comes until all is acknowledged; nothing may come before its delay is over.
func seenInWindow(
	s *scene, producing pulsar.ProducerOptions, nacking func(*pulsar.ConsumerOptions), retrying map[string]string,
) (string, error) {
	options := s.worker()
	options.Properties = map[string]string{"keyline.key-window": "1"}
	maps.Copy(options.Properties, retrying)
	nacking(&options)
	watched, _, err := s.watched(options, producing, windowMessages)
	if err != nil {
		return "", err
	}
	nacks, acknowledged, notBefore := 0, map[string]bool{}, time.Time{}
	for len(acknowledged) < windowMessages {
		message, err := watched.next()
		if err != nil {
			return watched.all(), err
		}
		if early := time.Until(notBefore); early > 0 {
			return "", fmt.Errorf("%s: the last came %v before its delay was over", watched.all(), early)
		}
		if text(message) == "0" && nacks < givenBack {
			if retrying != nil {
				notBefore = time.Now().Add(longestDelays[nacks])
			}
			nacks++
			watched.consumer.Nack(message)
			continue
		}
		if err := watched.consumer.Ack(message); err != nil {
			return watched.all(), err
		}
		acknowledged[text(message)] = true
	}
	return watched.all(), nil
}

func leased(s *scene, name string) pulsar.ConsumerOptions {
	options := s.worker()
	options.Name = name
	options.Properties = map[string]string{"keyline.ack-lease-ms": milliseconds(leaseTime)}
	return options
}

func lease(s *scene) (string, error) {
	consumer, _, err := s.begin(leased(s, ""), 1)
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

// lateAck acknowledges what another worker has by then, with receipts, when its client is connected again.
func lateAck(s *scene, producing pulsar.ProducerOptions) (string, error) {
	late, producer, err := s.watched(leased(s, "late"), producing, windowMessages)
	if err != nil {
		return "", err
	}
	lost, err := receiveNumbers(late.consumer, windowMessages, false)
	if err != nil {
		return "", err
	}
	other, err := s.subscribe(leased(s, "other"))
	if err != nil {
		return "", err
	}
	if _, err := receiveNumbers(other, windowMessages, false); err != nil {
		return "", err
	}
	// Only a consumer that the gateway has is told the last message id; until then this client asks again.
	if _, err := late.consumer.GetLastMessageIDs(); err != nil {
		return "", err
	}
	if _, err := other.GetLastMessageIDs(); err != nil { // it asks for more time
		return "", err
	}
	for _, message := range lost {
		if err := late.consumer.Ack(message); err != nil {
			return "", err
		}
	}
	late.consumer.Close()
	consumer, err := s.subscribe(leased(s, "late"))
	if err != nil {
		return "", err
	}
	if err := sendOfOneKey(producer, windowMessages, 1); err != nil {
		return "", err
	}
	other.Close()
	again := &watcher{consumer: consumer}
	err = again.take(windowMessages+1, nil)
	return again.all(), err
}
