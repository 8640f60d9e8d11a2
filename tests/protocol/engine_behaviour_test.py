"""CASES section K as seen from outside: clients that leave, aborts, poison requests, limits, shutdown."""

import json
import random
import signal
import socket
import struct
import threading
import time
import unittest

from client import ProtocolTest, Server, Stream

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
SLOW = {"prompt": "script:slow", "max_tokens": 400, "ignore_eos": True}


def read_answer(connection):
    """Everything until the chunked answer ends or the peer closes."""
    received = b""
    while not received.endswith(b"0\r\n\r\n"):
        part = connection.recv(65536)
        if not part:
            break
        received += part
    connection.close()
    return received


def read_stream(connection):
    received = read_answer(connection)
    head, _, rest = received.partition(b"\r\n\r\n")
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16) if size else 0
        body += rest[:length]
        rest = rest[length + 2 :]
    return Stream(int(head.split()[1]), {}, body.decode())


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class ClientGoneTest(ProtocolTest):
    def open_whole(self, body):
        connection = socket.create_connection(("127.0.0.1", self.server.port))
        data = json.dumps(body).encode()
        connection.sendall(
            b"POST "
            + COMPLETIONS.encode()
            + b" HTTP/1.1\r\nHost: h\r\nContent-Length: "
            + str(len(data)).encode()
            + b"\r\n\r\n"
            + data
        )
        return connection

    def wait_running(self, count):
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if len(self.server.blocks()["requests"]) >= count:
                return
            time.sleep(0.005)
        self.fail("the requests did not start")

    def test_b115_client_leaves(self):
        for open_request in (
            lambda: self.server.open_stream(COMPLETIONS, SLOW),
            lambda: self.open_whole(SLOW),
        ):
            for leave in (lambda c: c.close(), reset):
                connection = open_request()
                self.wait_running(1)
                leave(connection)
                self.assertTrue(self.server.wait_idle(2))

    def test_b115_many_times(self):
        for i in range(200):
            connection = self.server.open_stream(COMPLETIONS, {**SLOW, "n": i % 3 + 1})
            if i % 4:
                time.sleep(random.Random(i).random() * 0.01)
            reset(connection)
        self.assertTrue(self.server.wait_idle())
        self.assertEqual(self.server.complete("script:hello")[1]["choices"][0]["text"], "hello world!")

    def test_b116_leave_while_queued(self):
        connections = [self.server.open_stream(COMPLETIONS, {**SLOW, "max_tokens": 40}) for _ in range(50)]
        self.wait_running(50)
        kept = []
        for i, connection in enumerate(connections):
            if i % 2:
                reset(connection)
            else:
                kept.append(connection)
        for connection in kept:
            stream = read_stream(connection)
            self.assertEqual((stream.output(), stream.finishes(), stream.done), ("x" * 40, ["length"], True))
        self.assertTrue(self.server.wait_idle())


class LimitsTest(ProtocolTest):
    flags = {"max_num_seqs": 2, "max_num_queued_reqs": 3}

    def wait_for(self, condition):
        end = time.monotonic() + 5
        while not condition(self.server.blocks()["requests"]):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)

    def test_queue_full(self):
        body = {**SLOW, "max_tokens": 100}
        connections = [self.server.open_stream(COMPLETIONS, body) for _ in range(2)]
        self.wait_for(lambda requests: sum(r["state"] == "running" for r in requests) == 2)
        connections += [self.server.open_stream(COMPLETIONS, body) for _ in range(3)]
        self.wait_for(lambda requests: len(requests) == 5)
        status, headers, body = self.server.request(COMPLETIONS, {"prompt": "a"})
        self.assertEqual((status, json.loads(body)["error"]["code"]), (503, "server_overloaded"))
        self.assertIn("retry-after", headers)
        status, _, body = self.server.request(COMPLETIONS, {"prompt": "a", "stream": True})
        self.assertEqual(status, 503)
        for connection in connections:
            self.assertTrue(read_stream(connection).done)
        self.assertTrue(self.server.wait_idle())

    def test_deadline(self):
        body = {"prompt": "script:slow", "max_tokens": 400, "timeout": 0.3}
        status, answer = self.server.post(COMPLETIONS, body)
        self.assertEqual((status, answer["error"]["code"]), (504, "timeout"))
        stream = self.server.stream(COMPLETIONS, body)
        self.assertEqual(stream.status, 200)
        self.assertFalse(stream.done)
        self.assertGreater(len(stream.output()), 1)
        self.assertEqual(stream.events[-1]["error"]["code"], "timeout")
        self.assertEqual(stream.finishes(), [])
        busy = [self.server.open_stream(COMPLETIONS, {**SLOW, "max_tokens": 60}) for _ in range(2)]
        time.sleep(0.1)
        # Queued behind both slots: the deadline passes before the first token, so it is a status.
        status, _, answer = self.server.request(COMPLETIONS, {**body, "stream": True})
        self.assertEqual((status, json.loads(answer)["error"]["code"]), (504, "timeout"))
        for connection in busy:
            read_stream(connection)
        self.assertTrue(self.server.wait_idle())

    def test_b123_seeds(self):
        body = {"prompt": "script:random", "max_tokens": 24, "temperature": 1, "n": 2, "seed": 7}
        first = [c["text"] for c in self.server.post(COMPLETIONS, body)[1]["choices"]]
        again = [c["text"] for c in self.server.post(COMPLETIONS, body)[1]["choices"]]
        self.assertEqual(first, again)
        self.assertEqual(len(set(first)), 2)
        unseeded = {
            self.server.complete("script:random", max_tokens=24, temperature=1)[1]["choices"][0]["text"]
            for _ in range(5)
        }
        self.assertEqual(len(unseeded), 5)


class SmallPoolTest(ProtocolTest):
    flags = {"num_blocks": 9, "max_model_len": 512}

    def test_b117_a_request_that_can_never_fit(self):
        error = self.assert_error(self.server.complete("x" * 200, max_tokens=1), 400)
        self.assertIn("--kv-cache-memory-bytes", error["message"])
        self.assertEqual(self.server.complete("x" * 20, max_tokens=4)[0], 200)

    def test_b119_output_after_preemption(self):
        expected = "abcdefghijklmnopqrstuvwxyz" * 2
        answers = [None] * 6

        def ask(i):
            answers[i] = self.server.stream(COMPLETIONS, {"prompt": "script:slowabc", "max_tokens": 52})

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(answers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for stream in answers:
            self.assertEqual((stream.output(), stream.done), (expected, True))
        self.assertTrue(self.server.wait_idle())


class PoisonTest(ProtocolTest):
    def test_b124_bad_requests_do_not_disturb_streams(self):
        streams = [
            self.server.open_stream(COMPLETIONS, {"prompt": "script:slowabc", "max_tokens": 52})
            for _ in range(8)
        ]
        bodies = [
            b"",
            b"[]",
            b'{"prompt":"\xff"}',
            b"[" * 10**5,
            b'{"prompt":"a","n":1000000}',
            b'{"prompt":[4294967301]}',
            b'{"prompt":"a","logit_bias":{"4294967301":5}}',
            b'{"prompt":"a","max_tokens":9223372036854775807}',
            b'{"prompt":[""]}',
            b'{"prompt":"a","temperature":1e999}',
            b'{"prompt":"a","stop":[""]}',
            b'{"prompt":"a","logprobs":1000000000}',
            b'{"prompt":"script:fault"}',
            b'{"prompt":"script:throw"}',
            b'{"prompt":"a","seed":10000000000000000000000000000000}',
            b'{"prompt":"' + b"x" * 10**6 + b'"}',
        ]
        for body in bodies:
            self.assertGreaterEqual(self.server.request(COMPLETIONS, body, method="POST")[0], 400, body[:60])
        for connection in streams:
            stream = read_stream(connection)
            self.assertEqual((stream.output(), stream.done), ("abcdefghijklmnopqrstuvwxyz" * 2, True))
        self.assertTrue(self.server.wait_idle())


class ShutdownTest(unittest.TestCase):
    def test_b126_running_streams_finish(self):
        server = Server(shutdown_timeout=20)
        streams = [
            server.open_stream(COMPLETIONS, {"prompt": "script:slowabc", "max_tokens": 52}) for _ in range(4)
        ]
        first = [connection.recv(1, socket.MSG_PEEK) for connection in streams]
        self.assertTrue(all(first))
        server.process.send_signal(signal.SIGTERM)
        for connection in streams:
            stream = read_stream(connection)
            self.assertEqual((stream.output(), stream.done), ("abcdefghijklmnopqrstuvwxyz" * 2, True))
        self.assertEqual(server.process.wait(20), 0)
        server.stop()

    def test_b126_leftovers_get_an_error(self):
        server = Server(shutdown_timeout=0.3)
        connection = server.open_stream(COMPLETIONS, {"prompt": "script:slow", "max_tokens": 400})
        connection.recv(1, socket.MSG_PEEK)
        server.process.send_signal(signal.SIGTERM)
        stream = read_stream(connection)
        self.assertEqual(stream.events[-1]["error"]["code"], "shutting_down")
        self.assertFalse(stream.done)
        self.assertEqual(server.process.wait(20), 0)
        server.stop()

    def test_draining_refuses_new_work(self):
        server = Server(shutdown_timeout=20)
        kept = socket.create_connection(("127.0.0.1", server.port))
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
        self.assertIn(b"200", kept.recv(65536)[:20])
        connection = server.open_stream(COMPLETIONS, {"prompt": "script:slow", "max_tokens": 50})
        connection.recv(1, socket.MSG_PEEK)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        try:  # Either the listener is closed, or the answer is 503.
            status, body = server.post(COMPLETIONS, {"prompt": "a"})
            self.assertEqual((status, body["error"]["code"]), (503, "shutting_down"))
        except ConnectionError:
            pass
        self.assertTrue(read_stream(connection).done)
        self.assertEqual(server.process.wait(20), 0)
        kept.close()
        server.stop()


if __name__ == "__main__":
    unittest.main()
