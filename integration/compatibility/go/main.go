// Command go-probe tries features of the official Go client. Arguments: service URL, prefix of topics, directory of
// keys, features; the token is in the environment. It prints what the Python program beside it prints. If the first
// argument is "worker", it is a worker that is told what to do.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"sync"
)

const atOnce = 4

// errMissing wraps what this client does not offer.
var errMissing = errors.New("missing")

// trial tries one feature and returns what was seen.
type trial func(*scene) (string, error)

type outcome struct {
	Feature string `json:"feature"`
	OK      *bool  `json:"ok"`
	Detail  string `json:"detail"`
}

func main() {
	if os.Args[1] == "worker" {
		if err := work(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	place := place{os.Args[1], os.Args[2], os.Args[3], os.Getenv("KEYLINE_PROBE_TOKEN")}
	known := maps.Clone(keyShared)
	maps.Copy(known, others)
	maps.Copy(known, windows)
	maps.Copy(known, inTransactions)
	var printing sync.Mutex
	report := func(line any) {
		text, _ := json.Marshal(line)
		printing.Lock()
		defer printing.Unlock()
		fmt.Println(string(text))
	}
	report(map[string]string{"library": "pulsar-client-go " + libraryVersion()})
	hello, err := newScene(place, "hello")
	if err == nil {
		_, err = hello.producer(single())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for _, feature := range os.Args[4:] {
		slots <- struct{}{}
		running.Add(1)
		go func() {
			defer running.Done()
			report(attempt(place, feature, known[feature]))
			<-slots
		}()
	}
	running.Wait()
}

func attempt(place place, feature string, try trial) outcome {
	if try == nil {
		return outcome{feature, nil, "not tried"}
	}
	scene, err := newScene(place, feature)
	detail := ""
	if err == nil {
		detail, err = try(scene)
		scene.client.Close()
	}
	ok := err == nil
	switch {
	case errors.Is(err, errMissing):
		return outcome{feature, nil, err.Error()}
	case !ok:
		return outcome{feature, &ok, err.Error()}
	}
	return outcome{feature, &ok, detail}
}

func libraryVersion() string {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/apache/pulsar-client-go" {
			return module.Version
		}
	}
	return ""
}
