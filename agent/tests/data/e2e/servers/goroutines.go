// Goroutines that are inside functions as they wait, move between threads, get larger stacks, panic and end.
// Says of each call of handle its number and how long it took from inside and from outside, ns. With the name
// of a file it waits for that one first.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

var sink int

//go:noinline
func burn(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		sink++
	}
}

//go:noinline
func inner(n int) {
	burn(time.Millisecond)
	time.Sleep(2 * time.Millisecond)
	grown(100)
}

//go:noinline
func grown(n int) int {
	var bytes [512]byte
	bytes[n%512] = 1
	if n == 0 {
		return int(bytes[0])
	}
	return grown(n-1) + int(bytes[1])
}

//go:noinline
func handle(n int) time.Duration {
	begun := time.Now()
	inner(n)
	answer := make(chan int)
	go func() { burn(200 * time.Microsecond); answer <- n }()
	<-answer
	runtime.Gosched()
	return time.Since(begun)
}

//go:noinline
func panics(n int) {
	if n%2 == 1 {
		panic("odd")
	}
}

//go:noinline
func caught(n int) {
	defer func() { recover() }()
	panics(n)
}

//go:noinline
func ends() {
	time.Sleep(time.Millisecond)
	runtime.Goexit()
}

func main() {
	for len(os.Args) > 1 {
		if _, err := os.Stat(os.Args[1]); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	var all sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		all.Add(1)
		go func(worker int) {
			defer all.Done()
			for turn := 0; turn < 25; turn++ {
				number := worker*25 + turn + 1
				begun := time.Now()
				inside := handle(number)
				outside := time.Since(begun)
				fmt.Println(number, inside.Nanoseconds(), outside.Nanoseconds())
				caught(turn)
			}
		}(worker)
	}
	all.Wait()
	for turn := 0; turn < 20; turn++ {
		all.Add(1)
		go func() { defer all.Done(); ends() }()
	}
	all.Wait()
}
