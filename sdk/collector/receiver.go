// SPDX-License-Identifier: Apache-2.0

// Package spanprofreceiver feeds the profiles of spanprof, the sampling profiler of this host, into a pipeline of an
// OpenTelemetry Collector. The daemon sends OTLP over a unix socket that the receiver listens on. With `command` the
// receiver also starts the daemon, starts it again when it ends, and stops it before itself.
//
// What a Collector cannot take at the moment is answered with 503, and the daemon keeps it: in its spool where it has
// one, else in memory. So neither side loses a window when the other starts again.
package spanprofreceiver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/xreceiver"
)

const (
	defaultSocket = "/run/spanprof/collector.sock"
	// sizeof(sockaddr_un.sun_path), less its NUL: unix(7)
	maxSocket = 107
	// how long another process may take to answer at a socket that is there already
	probeTime = time.Second
)

// Config is what a Collector's file says below `spanprof:`.
type Config struct {
	// Socket is where the daemon sends to; as its own option, `endpoint = unix:SOCKET`. An absolute path.
	Socket string `mapstructure:"socket"`
	// Command starts the daemon, such as [spanprof, run, --all]. `--endpoint unix:SOCKET` is added to it. Without it
	// the daemon is started elsewhere.
	Command []string `mapstructure:"command"`
	// User is who may connect: what the daemon becomes before it sends, as its own option `run-as`. Empty: spanprof,
	// or nobody where there is none, as the daemon chooses. Only a Collector of root can give the socket to a user.
	User string `mapstructure:"user"`
}

// Validate says what to change.
func (c *Config) Validate() error {
	if !filepath.IsAbs(c.Socket) {
		return fmt.Errorf("socket: %q is no absolute path", c.Socket)
	}
	if len(c.Socket) > maxSocket {
		return fmt.Errorf("socket: a path of %d bytes, at most %d are possible", len(c.Socket), maxSocket)
	}
	if c.Command != nil && (len(c.Command) == 0 || c.Command[0] == "") {
		return errors.New("command: it is empty; leave it out, or give the program and its arguments")
	}
	for _, argument := range c.Command {
		for _, option := range []string{"--endpoint", "--backend"} {
			if argument == option || strings.HasPrefix(argument, option+"=") {
				return fmt.Errorf("command: leave out %s; the daemon is to send to this receiver", option)
			}
		}
	}
	return nil
}

// NewFactory is what a Collector is built with.
func NewFactory() receiver.Factory {
	return xreceiver.NewFactory(component.MustNewType("spanprof"),
		func() component.Config { return &Config{Socket: defaultSocket} },
		xreceiver.WithProfiles(create, component.StabilityLevelDevelopment))
}

// The Collector's own OTLP receiver reads and answers; here it listens on a unix socket, and on no port.
func create(ctx context.Context, set receiver.Settings, config component.Config,
	next xconsumer.Profiles) (xreceiver.Profiles, error) {
	own := config.(*Config)
	factory := otlpreceiver.NewFactory().(xreceiver.Factory)
	inner := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	inner.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	http := inner.Protocols.HTTP.GetOrInsertDefault()
	http.ServerConfig.NetAddr = confignet.AddrConfig{Transport: confignet.TransportTypeUnix, Endpoint: own.Socket}
	name := set.ID.String()
	set.ID = component.NewIDWithName(factory.Type(), name)
	otlp, err := factory.CreateProfiles(ctx, set, inner, next)
	if err != nil {
		return nil, err
	}
	return &profiles{config: own, otlp: otlp, daemon: newDaemon(own, set.Logger)}, nil
}

type profiles struct {
	config *Config
	otlp   xreceiver.Profiles
	daemon *daemon
}

// Takes away the socket of a Collector that was killed. One that answers belongs to somebody.
func freeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s is there already, and no socket; remove it, or set another `socket`", path)
	}
	connection, err := net.DialTimeout("unix", path, probeTime)
	if err == nil {
		connection.Close()
		return fmt.Errorf("another process listens on %s; stop it, or set another `socket`", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Remove(path)
}

// Gives the socket to the user that sends. A Collector without root keeps it.
func (c *Config) giveSocket() error {
	if os.Geteuid() != 0 {
		return nil
	}
	names := []string{"spanprof", "nobody"}
	if c.User != "" {
		names = []string{c.User}
	}
	for _, name := range names {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(found.Uid)
		if err != nil {
			return fmt.Errorf("user: %s: %w", name, err)
		}
		return os.Lchown(c.Socket, uid, -1)
	}
	return fmt.Errorf("user: this host has no user %s; set the `run-as` of the daemon", strings.Join(names, ", and no "))
}

// Start listens before the daemon starts, so that its first window arrives. Its folder is made if there is none; only
// the daemon's user, and root, may connect.
func (p *profiles) Start(ctx context.Context, host component.Host) error {
	if err := os.MkdirAll(filepath.Dir(p.config.Socket), 0o755); err != nil {
		return err
	}
	if err := freeSocket(p.config.Socket); err != nil {
		return err
	}
	// No other goroutine of a Collector that starts makes files that others should read; net.Listen() takes no mode.
	mask := syscall.Umask(0o177)
	err := p.otlp.Start(ctx, host)
	syscall.Umask(mask)
	if err != nil {
		return err
	}
	err = p.config.giveSocket()
	if err == nil {
		err = p.daemon.start(func(err error) {
			componentstatus.ReportStatus(host, componentstatus.NewFatalErrorEvent(err))
		})
	}
	if err != nil {
		return errors.Join(err, p.otlp.Shutdown(ctx))
	}
	return nil
}

// Shutdown ends the daemon first: it sends its last window while there is somebody to take it.
func (p *profiles) Shutdown(ctx context.Context) error {
	p.daemon.stop(ctx)
	return p.otlp.Shutdown(ctx)
}
