"""Server processes of a race: starting, readiness, memory, and what can be said of the machine."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

STOP_SECONDS = 60
POLL_SECONDS = 0.02  # also the resolution of the time to readiness


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def children(pid):
    """Ids of all processes below one, so far as they still live."""
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        direct = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return direct + [below for child in direct for below in children(child)]


def status_kb(path, field):
    for line in path.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


class Server:
    """A server process that answers GET /health with 200 once it is ready."""

    def __init__(self, name, command, log_path, environment=None, ready_limit_s=900):
        self.name = name
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.log_path = log_path
        self.ready_limit_s = ready_limit_s
        self.ready_s = float("nan")
        command = [str(part) for part in command] + ["--host", "127.0.0.1", "--port", str(port)]
        self.started = time.monotonic()
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                            env=os.environ | (environment or {}))

    def wait_ready(self):
        deadline = self.started + self.ready_limit_s
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                    if answer.status == 200:
                        self.ready_s = time.monotonic() - self.started
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(POLL_SECONDS)
        raise RuntimeError(f"{self.name} did not become ready; see {self.log_path}")

    def peak_memory_mb(self):
        """Peak resident memory of one process; of several, who share pages, their proportional parts now."""
        pid = self.process.pid
        below = children(pid)
        if not below:
            return status_kb(pathlib.Path(f"/proc/{pid}/status"), "VmHWM") / 1024
        total = 0
        for member in [pid, *below]:
            with contextlib.suppress(OSError):  # it may have ended
                total += status_kb(pathlib.Path(f"/proc/{member}/smaps_rollup"), "Pss")
        return total / 1024

    def stop(self):
        family = children(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in family:  # what a server left behind
            with contextlib.suppress(OSError):
                if os.getpgid(pid) == os.getpgid(0):
                    os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def running(servers):
    """Starts the servers one after the other by their makers, and stops them all."""
    started = []
    try:
        for make in servers:
            started.append(make())
            started[-1].wait_ready()
        yield started
    finally:
        for server in started:
            server.stop()


class Spinner:
    """A process that does nothing but use one CPU: the busy neighbour."""

    def __init__(self):
        self.cpu = max(os.sched_getaffinity(0))
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                        preexec_fn=lambda: os.sched_setaffinity(0, {self.cpu}))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.kill()
        self.process.wait()


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def first_line(*command):
    """The first line a program prints, on either stream: where it tells its version."""
    run = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True)
    return next(iter(run.stdout.splitlines()), "unknown")
