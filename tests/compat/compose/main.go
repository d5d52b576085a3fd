// Loads Compose files with the parser of Docker Compose, which checks them by the specification.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	for _, file := range os.Args[1:] {
		options, err := cli.NewProjectOptions([]string{file})
		if err != nil {
			fail(file, err)
		}
		project, err := options.LoadProject(context.Background())
		if err != nil {
			fail(file, err)
		}
		fmt.Println(project.Name, len(project.Services))
	}
}

func fail(file string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
	os.Exit(1)
}
