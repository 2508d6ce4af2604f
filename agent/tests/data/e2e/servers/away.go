// A goroutine that is inside functions as its system calls take longer than it may keep its turn, while others
// compute, one at a time, and as it replaces its program by itself, as often as its argument says. Says of each
// call of blocks its number and how long it took from inside and from outside, ns.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

//go:noinline
func burn(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

//go:noinline
func blocks(n int) time.Duration {
	begun := time.Now()
	for turn := 0; turn < 5; turn++ {
		sleep := syscall.Timespec{Nsec: 2000000}
		syscall.Syscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&sleep)), 0, 0)
	}
	return time.Since(begun)
}

//go:noinline
func again(times int) {
	if times > 1 {
		words := []string{os.Args[0], strconv.Itoa(times - 1)}
		panic(syscall.Exec("/proc/self/exe", words, os.Environ()))
	}
}

func main() {
	times, _ := strconv.Atoi(os.Args[1])
	if times > 0 {
		again(times)
		return
	}
	runtime.GOMAXPROCS(1)
	for worker := 0; worker < 3; worker++ {
		go func() {
			for {
				burn(2 * time.Millisecond)
				runtime.Gosched()
			}
		}()
	}
	for number := 1; number <= 20; number++ {
		begun := time.Now()
		inside := blocks(number)
		outside := time.Since(begun)
		fmt.Println(number, inside.Nanoseconds(), outside.Nanoseconds())
	}
}
