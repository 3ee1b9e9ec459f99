package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	soon            = 3 * time.Second
	transactionTime = 4 * time.Minute
)

// toldWorker is a worker of a Key_Shared subscription that does what it is told, a word a line: join, begin, receive,
// ack (what was received last, in the transaction), plain (the same without), soon, commit, abort, leave.
type toldWorker struct {
	scene       scene
	coordinator pulsar.Client
	consumer    pulsar.Consumer
	transaction pulsar.Transaction
	message     pulsar.Message
}

// work obeys what is on standard input, with a line of JSON for each. Arguments: service URL, topic; and a service URL
// for transactions.
func work(serviceURL, topic, coordinatorURL string) error {
	client, err := place{serviceURL: serviceURL}.connect("none", patience)
	if err != nil {
		return err
	}
	coordinator, err := place{serviceURL: coordinatorURL}.connect("none", patience)
	if err != nil {
		return err
	}
	worker := toldWorker{scene: scene{topic: topic, client: client}, coordinator: coordinator}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		said, err := worker.obey(orders.Text())
		if err != nil {
			said = err.Error()
		}
		line, _ := json.Marshal(map[string]string{"said": said})
		fmt.Println(string(line))
	}
	return orders.Err()
}

func (w *toldWorker) obey(order string) (said string, err error) {
	switch order {
	case "join":
		w.consumer, err = w.scene.subscribe(w.scene.worker())
		return "joined", err
	case "leave":
		w.consumer.Close()
		return "left", nil
	case "begin":
		w.transaction, err = w.coordinator.NewTransaction(transactionTime)
		return "begun", err
	case "receive":
		return w.receive(patience)
	case "soon":
		return w.receive(soon)
	case "ack":
		return "acknowledged", w.consumer.AckWithTxn(w.message, w.transaction)
	case "plain":
		return "acknowledged", w.consumer.Ack(w.message)
	case "commit":
		return "committed", w.transaction.Commit(context.Background())
	case "abort":
		return "aborted", w.transaction.Abort(context.Background())
	}
	return "", fmt.Errorf("%q is no order", order)
}

func (w *toldWorker) receive(longest time.Duration) (string, error) {
	message, err := receiveWithin(w.consumer, longest)
	if errors.Is(err, context.DeadlineExceeded) {
		return "nothing", nil
	}
	if err != nil {
		return "", err
	}
	w.message = message
	return text(message), nil
}
