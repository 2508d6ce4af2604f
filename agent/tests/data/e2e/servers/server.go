// A server under observation, of Go's own library: /work/MS computes, /sleep/MS waits, /quit ends it, and /predict/NUMBER computes
// for 20 ms and, if it is a tenth one, FAULT_MS more.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

//go:noinline
func predict(number int) {
	more := 0
	if number%10 == 0 {
		more, _ = strconv.Atoi(os.Getenv("FAULT_MS"))
	}
	for end := time.Now().Add(time.Duration(20+more) * time.Millisecond); time.Now().Before(end); {
	}
}

func serve(out http.ResponseWriter, in *http.Request) {
	parts := strings.Split(in.URL.Path, "/")
	ms := 0
	if len(parts) > 2 {
		ms, _ = strconv.Atoi(parts[2])
	}
	switch parts[1] {
	case "work":
		for end := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(end); {
		}
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
