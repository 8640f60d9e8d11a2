"""Starts the pagoda binary, waits until it is ready, and stops it."""
import os
import pathlib
import signal
import socket
import subprocess
import time

import httpx
import openai

MODEL_NAME = "smollm2"
MODEL_FILE = "smollm2-135m-instruct-q4_1.gguf"
ROOT = pathlib.Path(__file__).resolve().parents[2]
READY_SECONDS = 120  # a sanitizer build on a busy machine needs most of it
STOP_SECONDS = 60


def binary():
    return pathlib.Path(os.environ.get("PAGODA_BIN") or ROOT / "build" / "release" / "pagoda")


def model_path(name=MODEL_FILE):
    if "PAGODA_MODELS" in os.environ:
        return pathlib.Path(os.environ["PAGODA_MODELS"]) / name
    cache = os.environ.get("PAGODA_CACHE") or pathlib.Path.home() / ".cache" / "pagoda"
    return pathlib.Path(cache) / "models" / name


def start_command(name, *arguments, **options):
    """`pagoda NAME ARGUMENTS...`, with its output as text in pipes; options go to Popen."""
    return subprocess.Popen([str(binary()), name, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One running `pagoda serve`. Its log is a file, so that nothing blocks on a full pipe."""

    def __init__(self, log_path, *arguments, model=None):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = log_path
        command = [str(binary()), "serve", str(model or model_path()), "--host", "127.0.0.1",
                   "--port", str(self.port), "--served-model-name", MODEL_NAME, *arguments]
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def wait_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"pagoda ended with {self.process.returncode}:\n{self.log()}")
            try:
                if httpx.get(self.url + "/health", timeout=5).status_code == 200:
                    return self
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"pagoda was not ready after {READY_SECONDS} s:\n{self.log()}")

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def stop(self):
        """Asks the server to end and gives its exit code."""
        if self.process.poll() is None:
            self.terminate()
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"pagoda did not end {STOP_SECONDS} s after SIGTERM:\n{self.log()}") from None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def client(self):
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=300)

    def async_client(self):
        return openai.AsyncOpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=300)

    def blocks(self):
        return httpx.get(self.url + "/debug/blocks", timeout=30).raise_for_status().json()

    def metrics(self):
        return httpx.get(self.url + "/metrics", timeout=30).raise_for_status().text

    def wait_unused(self, seconds=30):
        """Waits until no request holds a block, and gives the last snapshot."""
        deadline = time.monotonic() + seconds
        snapshot = self.blocks()
        while snapshot["used"] != 0 and time.monotonic() < deadline:
            time.sleep(0.05)
            snapshot = self.blocks()
        return snapshot
