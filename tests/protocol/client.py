"""A server process over the scripted model, and a small HTTP client for it (standard library only)."""

import atexit
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest

EMOJI = [[97], [240], [159], [152], [128], [98]]


def letters(text):
    return list(text)


SCRIPTS = {
    "emoji": {"pieces": EMOJI},
    "emoji2": {"pieces": [[97], [240, 159], [152], [128], [98]], "delay_ms": 50},
    "family": {"pieces": [[b] for b in "x\U0001f468\u200d\U0001f469\u200d\U0001f467y".encode()]},
    "scripts": {"pieces": [[b] for b in "é नमस्ते 中文 🇩🇪\u2028!".encode()]},
    "halfeuro": {"pieces": [[226], [130], "A"]},
    "badff": {"pieces": [[255], "h"]},
    "surrogate": {"pieces": [[237, 160, 128]]},
    "overlong": {"pieces": [[192, 175]]},
    "toobig": {"pieces": [[244, 144, 128, 128]]},
    "alphabet": {"pieces": ["DEF", "G", "HI", "J"]},
    "nearmiss": {"pieces": ["DEF", "G", "HX"]},
    "overlap": {"pieces": ["a", "a", "a", "b", "c"]},
    "stop": {"pieces": ["sto", "p!"]},
    "blank": {"pieces": ["x\n", "\n", "y"]},
    "xy": {"pieces": ["abcX", "defY"]},
    "abcd": {"pieces": ["ab", "cd"]},
    "END": {"pieces": ["END"]},
    "DE": {"pieces": ["DE", "zz"]},
    "hello": {"pieces": ["hello wor", "ld!"]},
    "78": {"pieces": ["7", "8"]},
    "special": {"pieces": ["abc", {"id": 2}, "zzz"]},
    "turnend": {"pieces": ["abc", {"id": 4}, "zzz"]},
    "fault": {"pieces": ["a", "b", {"id": 6}]},
    "throw": {"pieces": ["a", "b", {"id": 7}]},
    "faultfirst": {"pieces": [{"id": 6}]},
    "slow": {"pieces": ["x"], "repeat": True, "delay_ms": 20},
    "slowabc": {"pieces": letters("abcdefghijklmnopqrstuvwxyz") * 2, "delay_ms": 10},
    "slowx": {"pieces": ["x"] * 50, "delay_ms": 50},
    "collide": {"pieces": [{"choose": [[159], [152]]}]},
    "random": {"pieces": [{"choose": letters("abcdefghijklmnop")}], "repeat": True},
    "separators": {"pieces": ["a\u2028b", "\r\n", "data: x\n\n", "\"q\"", "\\", "\t"]},
    "endless": {"pieces": ["xy"], "repeat": True},
}


class Server:
    """One pagoda_scripted_server with the scripts of this file or others; other arguments become flags."""

    def __init__(self, scripts=None, **flags):
        binary = os.environ.get("PAGODA_SCRIPTED_SERVER")
        if not binary or not os.path.exists(binary):
            raise unittest.SkipTest("PAGODA_SCRIPTED_SERVER names no binary")
        self._file = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump({"scripts": SCRIPTS if scripts is None else scripts}, self._file)
        self._file.flush()
        self._log = tempfile.TemporaryFile()  # a pipe that nobody reads would stop the server
        command = [binary, "--script-file", self._file.name]
        for name, value in flags.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("port "):
            self._log.seek(0)
            raise RuntimeError("the server did not start: " + self._log.read().decode())
        self.port = int(line.split()[1])
        atexit.register(self.stop)

    def stop(self):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self._log.close()
        self._file.close()
        atexit.unregister(self.stop)
        return self.process.returncode

    def request(self, path, body=None, method=None, headers=None, timeout=30):
        """-> (status, headers in lower case, bytes). A dict or list is sent as JSON, bytes as they are."""
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(
                method or ("POST" if data is not None else "GET"),
                path,
                data,
                {"Content-Type": "application/json", **(headers or {})},
            )
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()

    def get(self, path):
        status, _, body = self.request(path)
        return status, json.loads(body)

    def post(self, path, body, **options):
        """-> (status, parsed body); NaN and Infinity are not JSON."""
        status, headers, data = self.request(path, body, **options)
        assert headers["content-type"].startswith("application/json"), headers
        return status, json.loads(data.decode("utf-8", "strict"), parse_constant=lambda word: 1 / 0)

    def stream(self, path, body, **options):
        """-> Stream of a whole answer."""
        status, headers, data = self.request(path, {**body, "stream": True}, **options)
        return Stream(status, headers, data.decode("utf-8", "strict"))

    def complete(self, prompt, **fields):
        return self.post("/v1/completions", {"prompt": prompt, **fields})

    def chat(self, content, **fields):
        return self.post(
            "/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **fields}
        )

    def open_stream(self, path, body):
        """A socket on which the answer to a streaming request will arrive."""
        connection = socket.create_connection(("127.0.0.1", self.port))
        data = json.dumps({**body, "stream": True}).encode()
        connection.sendall(
            b"POST " + path.encode() + b" HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
            b"Content-Length: " + str(len(data)).encode() + b"\r\n\r\n" + data
        )
        return connection

    def alive(self):
        return self.request("/health", timeout=10)[0] == 200

    def blocks(self):
        return self.get("/debug/blocks")[1]

    def wait_idle(self, seconds=5.0):
        """True once no request is in the engine and no block is used."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            blocks = self.blocks()
            if not blocks["requests"] and blocks["used"] == 0:
                return True
            time.sleep(0.01)
        return False


class Stream:
    """The events of a streamed answer, with the framing checked."""

    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text
        self.events, self.done = [], False
        if status != 200:
            return
        assert text.endswith("\n\n"), text[-80:]
        for frame in text[:-2].split("\n\n"):
            assert frame.startswith("data: ") and "\n" not in frame and "\r" not in frame, frame
            assert not self.done, "something after [DONE]"
            payload = frame[len("data: ") :]
            if payload == "[DONE]":
                self.done = True
            else:
                self.events.append(json.loads(payload, parse_constant=lambda word: 1 / 0))

    def choices(self, index=0):
        return [c for e in self.events for c in e.get("choices", []) if c["index"] == index]

    def deltas(self, index=0):
        texts = [c["text"] if "text" in c else c["delta"].get("content", "") for c in self.choices(index)]
        return [t for t in texts if t]

    def output(self, index=0):
        return "".join(self.deltas(index))

    def finishes(self, index=0):
        return [c["finish_reason"] for c in self.choices(index) if c["finish_reason"]]

    def usage(self):
        return [e["usage"] for e in self.events if e.get("usage")]


class ProtocolTest(unittest.TestCase):
    """Tests that share one server."""

    flags = {}

    @classmethod
    def setUpClass(cls):
        cls.server = Server(**cls.flags)

    @classmethod
    def tearDownClass(cls):
        server, cls.server = cls.server, None
        code = server.stop()
        assert code == 0, f"the server ended with {code}"

    def tearDown(self):
        self.assertTrue(self.server.alive())

    def assert_error(self, answer, status, param=None, code=None):
        self.assertEqual(answer[0], status, answer[1])
        error = answer[1]["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertIsInstance(error["message"], str)
        self.assertTrue(error["message"])
        if param is not None:
            self.assertEqual(error["param"], param, error)
        if code is not None:
            self.assertEqual(error["code"], code, error)
        return error
