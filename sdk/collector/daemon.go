// SPDX-License-Identifier: Apache-2.0

package spanprofreceiver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	firstPause = time.Second
	longPause  = time.Minute
	// a daemon that ran for so long had no trouble with its start
	goodRun = time.Minute
	// how long a daemon may take to send its last window, where the Collector sets no time
	stopTime = 15 * time.Second
	// behind that time, it has been killed
	stopSpare = 3 * time.Second
	// a daemon that can never run says so at its start: before the Collector says that it is ready
	earlyEnd = time.Second
	// for the last lines of a daemon that has ended; a process that it left behind may hold the pipe for longer
	lastLines = time.Second
)

// The daemon's exit status for a wrong command line, and for a configuration or a kernel that it cannot use. It would
// end so each time: its unit has these in RestartPreventExitStatus, too.
func isFinal(status int) bool {
	return status == 2 || status == 78
}

// daemon is the process that `command` names, and the goroutine that starts it again. Without a command both of its
// functions do nothing.
type daemon struct {
	arguments []string
	log       *zap.Logger
	report    func(error)
	final     chan error    // why the daemon is not started again, while start() waits for it
	running   chan struct{} // start() waits no longer
	stopping  chan struct{}
	ended     chan struct{}
	once      sync.Once
	started   bool
}

func newDaemon(config *Config, log *zap.Logger) *daemon {
	d := &daemon{log: log, final: make(chan error), running: make(chan struct{}), stopping: make(chan struct{}),
		ended: make(chan struct{})}
	if config.Command != nil {
		d.arguments = append(append([]string{}, config.Command...), "--endpoint", "unix:"+config.Socket)
	}
	return d
}

// start returns once the first process has run for a moment, or with the reason why it cannot.
// @report: called once with the reason if the daemon will not be started again later.
func (d *daemon) start(report func(error)) error {
	if d.arguments == nil {
		return nil
	}
	d.started = true
	d.report = report
	first := make(chan error)
	go d.keep(first)
	if err := <-first; err != nil {
		return err
	}
	defer close(d.running)
	select {
	case err := <-d.final:
		return err
	case <-time.After(earlyEnd):
		return nil
	}
}

// giveUp hands the reason to start(), or behind it to the Collector.
//
// The Collector's ReportStatus() holds the lock of its reporter until its main loop takes the error, and a Collector
// that is still starting, or stops, has no such loop: each status that it sets then waits for that lock. That cannot be
// mended here. So the usual case needs no report, and a report that waits holds up nothing of ours.
func (d *daemon) giveUp(err error) {
	select {
	case d.final <- err:
	case <-d.running:
		go d.report(err)
	}
}

// keep holds its thread: the kernel sends Pdeathsig when the *thread* ends that started the process. So a Collector
// that is killed leaves no daemon behind.
func (d *daemon) keep(first chan<- error) {
	runtime.LockOSThread()
	defer close(d.ended)
	pause := firstPause
	for {
		began := time.Now()
		child, copied, err := d.launch()
		if first != nil {
			first <- err
			first = nil
			if err != nil {
				return
			}
		}
		if err == nil {
			err = d.await(child, copied)
		}
		select {
		case <-d.stopping:
			return
		default:
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && isFinal(exit.ExitCode()) {
			d.giveUp(fmt.Errorf("spanprof cannot run so, see its message above: %w", err))
			return
		}
		if time.Since(began) >= goodRun {
			pause = firstPause
		}
		d.log.Warn("spanprof ended, and is started again", zap.Error(err), zap.Duration("in", pause))
		select {
		case <-d.stopping:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}

// launch starts the process. The channel is closed when all that it printed is in the log.
func (d *daemon) launch() (*exec.Cmd, <-chan struct{}, error) {
	child := exec.Command(d.arguments[0], d.arguments[1:]...)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	child.Stdout = writer
	child.Stderr = writer
	err = child.Start()
	writer.Close()
	if err != nil {
		reader.Close()
		return nil, nil, err
	}
	d.log.Info("spanprof runs", zap.Int("pid", child.Process.Pid), zap.Strings("command", d.arguments))
	copied := make(chan struct{})
	go d.copyLog(reader, copied)
	return child, copied, nil
}

// await returns when the process has ended and its last lines are in the log: they say why. It passes a stop on to it,
// and kills it when it does not follow.
func (d *daemon) await(child *exec.Cmd, copied <-chan struct{}) error {
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		select {
		case <-gone:
			return
		case <-d.stopping:
		}
		child.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(stopTime):
			d.log.Error("spanprof did not stop, and is killed", zap.Duration("after", stopTime))
			child.Process.Kill()
		}
	}()
	err := child.Wait()
	select {
	case <-copied:
	case <-time.After(lastLines):
	}
	return err
}

// Each line that the daemon prints becomes a line of the Collector's log. A line of any length is read to its end.
func (d *daemon) copyLog(from io.ReadCloser, copied chan<- struct{}) {
	defer close(copied)
	defer from.Close()
	lines := bufio.NewReader(from)
	for {
		line, cut, err := lines.ReadLine()
		if err != nil {
			return
		}
		d.log.Info(string(line))
		for cut && err == nil {
			_, cut, err = lines.ReadLine()
		}
	}
}

// stop returns when the process has ended, or when the Collector waits no longer. A Collector that sets no time waits
// for as long as a kill takes.
func (d *daemon) stop(ctx context.Context) {
	if !d.started {
		return
	}
	d.once.Do(func() { close(d.stopping) })
	select {
	case <-d.ended:
	case <-ctx.Done():
	case <-time.After(stopTime + stopSpare):
	}
}
