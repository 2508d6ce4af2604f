// A server under observation, of Go's own library: /work/MS computes, /sleep/MS waits, /stream/MS answers in
// ten parts, each after a sleep of MS in which something else computes for half that time, /hijack/MS has
// another goroutine answer, after such a sleep, /idle/MS answers after one, /early/MS answers before one,
// /quit ends it, and /predict/NUMBER computes for 20 ms and, if it is a tenth one, FAULT_MS more.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func burn(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

//go:noinline
func predict(number int) {
	more := 0
	if number%10 == 0 {
		more, _ = strconv.Atoi(os.Getenv("FAULT_MS"))
	}
	burn(time.Duration(20+more) * time.Millisecond)
}

func stream(out http.ResponseWriter, each time.Duration) {
	// All that runs does so on one thread.
	runtime.GOMAXPROCS(1)
	out.Header().Set("Content-Length", "10")
	for part := 0; part < 10; part++ {
		go burn(each / 2)
		time.Sleep(each)
		fmt.Fprint(out, ".")
		out.(http.Flusher).Flush()
	}
}

func hijacked(connection net.Conn, each time.Duration) {
	go burn(each / 2)
	time.Sleep(each)
	fmt.Fprint(connection, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
	connection.Close()
}

func serve(out http.ResponseWriter, in *http.Request) {
	parts := strings.Split(in.URL.Path, "/")
	ms := 0
	if len(parts) > 2 {
		ms, _ = strconv.Atoi(parts[2])
	}
	switch parts[1] {
	case "work":
		burn(time.Duration(ms) * time.Millisecond)
	case "stream":
		stream(out, time.Duration(ms)*time.Millisecond)
		return
	case "idle":
		runtime.GOMAXPROCS(1)
		go burn(time.Duration(ms/2) * time.Millisecond)
		time.Sleep(time.Duration(ms) * time.Millisecond)
	case "early":
		out.Header().Set("Content-Length", "4")
		fmt.Fprint(out, "done")
		out.(http.Flusher).Flush()
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return
	case "hijack":
		connection, _, err := out.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		runtime.GOMAXPROCS(1)
		go hijacked(connection, time.Duration(ms)*time.Millisecond)
		return
	case "predict":
		predict(ms)
	case "sleep":
		time.Sleep(time.Duration(ms) * time.Millisecond)
	case "quit":
		time.AfterFunc(100*time.Millisecond, func() { os.Exit(0) })
	}
	fmt.Fprint(out, "done")
}

func main() {
	http.HandleFunc("/", serve)
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[1], nil); err != nil {
		panic(err)
	}
}
