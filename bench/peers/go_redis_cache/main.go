// go-redis/cache as a peer of bench_fleet; ../README.md tells how the two talk.
package main

import (
	"bufio"
	"fmt"
	"log"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/cache/v9"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

// now is std::chrono::steady_clock in nanoseconds.
func now() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		log.Fatal(err)
	}
	return time.Nano()
}

// cold answers each line "KEY LOAD_MS" when `callers` goroutines, which begin within 50 ms, have got the key:
// "LOADS END ANSWERED".
func cold(lines *bufio.Scanner, callers int, url string) {
	shared := cache.New(&cache.Options{
		Redis:      redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(url, "redis://"), PoolSize: callers}),
		LocalCache: cache.NewTinyLFU(10_000, time.Hour),
	})
	for lines.Scan() {
		var key uint64
		var loadMs int64
		if _, err := fmt.Sscan(lines.Text(), &key, &loadMs); err != nil {
			log.Fatal(err)
		}
		var loads, loadEnd atomic.Int64
		load := func(*cache.Item) (any, error) {
			loads.Add(1)
			time.Sleep(time.Duration(loadMs) * time.Millisecond)
			loadEnd.Store(now())
			return key, nil
		}
		answered := make([]int64, callers)
		var group sync.WaitGroup
		for i := range callers {
			pause := time.Duration(rand.Int63n(int64(50 * time.Millisecond)))
			group.Add(1)
			go func() {
				defer group.Done()
				time.Sleep(pause)
				var value uint64
				item := cache.Item{Key: strconv.FormatUint(key, 10), Value: &value, TTL: time.Hour, Do: load}
				if err := shared.Once(&item); err != nil || value != key {
					log.Fatal("Once: ", value, err)
				}
				answered[i] = now()
			}()
		}
		group.Wait()
		last := answered[0]
		for _, moment := range answered {
			last = max(last, moment)
		}
		fmt.Println(loads.Load(), loadEnd.Load(), last)
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--check" { // Whether it starts.
		fmt.Println("ready")
		return
	}
	if len(os.Args) != 4 || os.Args[1] != "cold" {
		log.Fatal("usage: driver cold CALLERS URL")
	}
	callers, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	cold(bufio.NewScanner(os.Stdin), callers, os.Args[3])
}
