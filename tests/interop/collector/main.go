// SPDX-License-Identifier: Apache-2.0

// A real OpenTelemetry Collector with no more in it than our tests need: OTLP and our own receiver in; files, a debug log
// and OTLP out. Given `pdata DIRECTORY FILE…` it is the other reader instead: each file goes through the collector's own
// codec, and what comes out of it is written to DIRECTORY. `classes FILE…` reads each by the generated Go classes of
// opentelemetry-proto and says what they do not know of it, or write otherwise. `listen CERTIFICATE KEY` is an HTTPS
// server that says how it was spoken to.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	profiles "go.opentelemetry.io/proto/otlp/collector/profiles/v1development"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"spanprof.example/spanprofreceiver"
)

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory(), spanprofreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](debugexporter.NewFactory(), fileexporter.NewFactory(),
		otlpexporter.NewFactory(), otlphttpexporter.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory()}, nil
}

// Decodes and encodes once more; what the codec does not know is gone then.
func roundTrip(directory, name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	request := pprofileotlp.NewExportRequest()
	var again []byte
	if data[0] == '{' {
		if err = request.UnmarshalJSON(data); err == nil {
			again, err = request.MarshalJSON()
		}
	} else if err = request.UnmarshalProto(data); err == nil {
		again, err = request.MarshalProto()
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, filepath.Base(name)), again, 0o600)
}

func readFiles(directory string, names []string) int {
	status := 0
	for _, name := range names {
		if err := roundTrip(directory, name); err != nil {
			fmt.Printf("%s: %v\n", name, err)
			status = 1
		}
	}
	return status
}

// Each message within @request that has fields its class does not know, by its path.
func unknownFields(request proto.Message) (found []string) {
	protorange.Range(request.ProtoReflect(), func(values protopath.Values) error {
		if message, ok := values.Index(-1).Value.Interface().(protoreflect.Message); ok && len(message.GetUnknown()) > 0 {
			found = append(found, fmt.Sprintf("%v: unknown fields", values.Path))
		}
		return nil
	})
	return found
}

// Return: what is wrong with the bytes, and what they hold.
func readByClasses(data []byte) ([]string, *profiles.ExportProfilesServiceRequest) {
	request := &profiles.ExportProfilesServiceRequest{}
	if err := proto.Unmarshal(data, request); err != nil {
		return []string{err.Error()}, request
	}
	found := unknownFields(request)
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		found = append(found, err.Error())
	} else if !bytes.Equal(again, data) {
		found = append(found, "other bytes when it is written again")
	}
	return found, request
}

// A reader that silently drops what it does not like would be seen by this number.
func countSamples(request *profiles.ExportProfilesServiceRequest) (n int) {
	for _, resource := range request.ResourceProfiles {
		for _, scope := range resource.ScopeProfiles {
			for _, profile := range scope.Profiles {
				n += len(profile.Samples)
			}
		}
	}
	return n
}

func classes(names []string) int {
	status := 0
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			fmt.Println(err)
			return 2
		}
		problems, request := readByClasses(data)
		for _, problem := range problems {
			fmt.Printf("%s: %s\n", name, problem)
			status = 1
		}
		fmt.Printf("%s: %d samples\n", name, countSamples(request))
	}
	return status
}

// Any path, answered by 200: Go's server speaks HTTP/2 where TLS agrees on it.
func listen(certificate, key string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	return http.ServeTLS(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Printf("%s %s %s\n", r.Method, r.URL.Path, r.Proto)
	}), certificate, key)
}

// Best of some rounds, for tests/bench/otlp-cost.py: what the same bytes cost the collector's own codec.
func bench(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	unmarshal, marshal := time.Hour, time.Hour
	for i := 0; i < 15; i++ {
		request := pprofileotlp.NewExportRequest()
		start := time.Now()
		if err := request.UnmarshalProto(data); err != nil {
			return err
		}
		unmarshal = min(unmarshal, time.Since(start))
		start = time.Now()
		if _, err := request.MarshalProto(); err != nil {
			return err
		}
		marshal = min(marshal, time.Since(start))
	}
	fmt.Printf("unmarshal_ns %d\nmarshal_ns %d\n", unmarshal.Nanoseconds(), marshal.Nanoseconds())
	return nil
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "bench" {
		if err := bench(os.Args[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 4 && os.Args[1] == "listen" {
		fmt.Println(listen(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	if len(os.Args) > 2 && os.Args[1] == "classes" {
		os.Exit(classes(os.Args[2:]))
	}
	if len(os.Args) > 3 && os.Args[1] == "pdata" {
		os.Exit(readFiles(os.Args[2], os.Args[3:]))
	}
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Description: "for tests", Version: "0.162.0"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme:     "file",
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
		}},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		os.Exit(1)
	}
}
