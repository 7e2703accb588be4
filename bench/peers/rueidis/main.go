// rueidis as a peer of bench_fleet; ../README.md tells how the two talk.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sys/unix"
)

const (
	batch      = 1000
	maxLife    = time.Hour
	changed    = 10
	namePrefix = "go:"
)

// now is std::chrono::steady_clock in nanoseconds.
func now() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		log.Fatal(err)
	}
	return time.Nano()
}

func connect(url string, onInvalidations func([]rueidis.RedisMessage)) rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:     []string{strings.TrimPrefix(url, "redis://")},
		ClientName:      "reader",
		OnInvalidations: onInvalidations,
	})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// watch answers each line "KEY" with 0 when it has the value, and with the time when the value is invalidated.
func watch(lines *bufio.Scanner, url string) {
	var waiting atomic.Bool
	client := connect(url, func(keys []rueidis.RedisMessage) {
		moment := now()
		if waiting.CompareAndSwap(true, false) {
			fmt.Println(moment)
		}
	})
	for lines.Scan() {
		get := client.B().Get().Key(namePrefix + lines.Text()).Cache()
		if err := client.DoCache(context.Background(), get, maxLife).Error(); err != nil {
			log.Fatal(err)
		}
		waiting.Store(true)
		fmt.Println(0)
	}
}

// keep answers each line "VALUE" when `count` keys are in the client's cache, and the first, the one after a tenth of
// them and so on have that value.
func keep(lines *bufio.Scanner, count int, url string) {
	client := connect(url, nil)
	for lines.Scan() {
		for !pass(client, count, lines.Text()) {
			time.Sleep(time.Millisecond)
		}
		fmt.Println(0)
	}
}

// pass gets all keys, and tells whether that was all from memory and is what keep waits for.
func pass(client rueidis.Client, count int, value string) bool {
	done := true
	for first := 0; first < count; first += batch {
		var wanted []rueidis.CacheableTTL
		for key := first; key < min(first+batch, count); key++ {
			name := namePrefix + strconv.Itoa(key)
			wanted = append(wanted, rueidis.CT(client.B().Get().Key(name).Cache(), maxLife))
		}
		for i, result := range client.DoMultiCache(context.Background(), wanted...) {
			text, err := result.ToString()
			if err != nil || !result.IsCacheHit() {
				done = false // The connection is lost, or the value was not in memory.
			} else if (first+i)%(count/changed) == 0 && text != value {
				done = false
			}
		}
	}
	return done
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--check" { // Whether it starts.
		fmt.Println("ready")
		return
	}
	if len(os.Args) != 4 {
		log.Fatal("usage: driver watch|keep COUNT URL")
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	switch os.Args[1] {
	case "watch":
		watch(lines, os.Args[3])
	case "keep":
		keep(lines, count, os.Args[3])
	default:
		log.Fatal("unknown: " + os.Args[1])
	}
}
