// Reads and writes files with goroutines. Go makes its system calls itself; "C" makes the loader
// load the C library, and with it the recorder.
package main

// int nothing(void) { return 0; }
import "C"

import (
	"bytes"
	"os"
	"strconv"
)

func main() {
	numbers, err := os.ReadFile("numbers")
	if err != nil {
		panic(err)
	}
	sum := int(C.nothing())
	for _, line := range bytes.Fields(numbers) {
		number, _ := strconv.Atoi(string(line))
		sum += number
	}
	done := make(chan error)
	for n := 0; n < 4; n++ {
		go func(n int) { done <- os.WriteFile("of goroutine "+strconv.Itoa(n), numbers, 0o644) }(n)
	}
	for n := 0; n < 4; n++ {
		if err := <-done; err != nil {
			panic(err)
		}
	}
	os.Stdout.WriteString(strconv.Itoa(sum) + "\n")
}
