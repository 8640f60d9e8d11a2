"""/v1/files and /v1/batches: shapes, pages, errors, and what happens to other requests."""

import http.client
import json
import os
import signal
import tempfile
import threading
import time
import unittest

from client import ProtocolTest, Server

FILE_KEYS = [
    "id",
    "object",
    "bytes",
    "created_at",
    "expires_at",
    "filename",
    "purpose",
    "status",
    "status_details",
]
BATCH_KEYS = {
    "id", "object", "endpoint", "errors", "input_file_id", "completion_window", "status", "output_file_id",
    "error_file_id", "created_at", "in_progress_at", "expires_at", "finalizing_at", "completed_at",
    "failed_at", "expired_at", "cancelling_at", "cancelled_at", "request_counts", "metadata",
}  # fmt: skip
FINAL = ("completed", "failed", "cancelled")


def line(custom_id, prompt="script:alphabet", url="/v1/completions", **body):
    body = {"prompt": prompt, "max_tokens": 30, **body}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body}) + "\n"


def form(*parts, boundary="edge", end="--edge--\r\n"):
    """(name, filename or None, bytes) of each part -> headers and body."""
    body = b""
    for name, filename, content in parts:
        extra = f'; filename="{filename}"' if filename is not None else ""
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    return {"Content-Type": f"multipart/form-data; boundary={boundary}"}, body + end.encode()


class Batches:
    """Calls that the tests share; `server` is one with a folder."""

    def send(self, *parts, **options):
        headers, body = form(*parts, **options)
        return self.server.post("/v1/files", body, headers=headers)

    def upload(self, text, purpose="batch", filename="in.jsonl"):
        content = text if isinstance(text, bytes) else text.encode()
        status, answer = self.send(("purpose", None, purpose.encode()), ("file", filename, content))
        self.assertEqual(status, 200, answer)
        return answer

    def create(self, text, endpoint="/v1/completions", **fields):
        body = {"input_file_id": self.upload(text)["id"], "endpoint": endpoint, "completion_window": "24h"}
        status, answer = self.server.post("/v1/batches", {**body, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def get(self, path):
        status, answer = self.server.get(path)
        self.assertEqual(status, 200, answer)
        return answer

    def delete(self, path):
        status, _, body = self.server.request(path, method="DELETE")
        return status, json.loads(body)

    def cancel(self, batch_id):
        return self.server.post(f"/v1/batches/{batch_id}/cancel", None, method="POST")

    def wait(self, batch_id, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            batch = self.get(f"/v1/batches/{batch_id}")
            if batch["status"] in FINAL:
                return batch
            time.sleep(0.01)
        self.fail(f"not over after {seconds} s: {batch}")

    def wait_for_answers(self, batch_id, count, seconds=30):
        end = time.monotonic() + seconds
        while (batch := self.get(f"/v1/batches/{batch_id}"))["request_counts"]["completed"] < count:
            self.assertNotIn(batch["status"], FINAL, batch)
            self.assertLess(time.monotonic(), end, batch)
            time.sleep(0.01)

    def content(self, file_id):
        status, headers, body = self.server.request(f"/v1/files/{file_id}/content")
        self.assertEqual(status, 200, body)
        self.assertEqual(headers["content-type"], "application/octet-stream")
        return body

    def answers(self, file_id):
        found = {}
        for text in self.content(file_id).decode().splitlines():
            answer = json.loads(text)
            self.assertEqual(set(answer), {"id", "custom_id", "response", "error"})
            self.assertNotIn(answer["custom_id"], found)
            found[answer["custom_id"]] = answer["response"]
        return found


class BatchTest(Batches, ProtocolTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.flags = {"batch_dir": cls.folder.name, "max_num_seqs": 4}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()


class FilesTest(BatchTest):
    def test_the_life_of_a_file(self):
        content = bytes(range(256)) * 5000 + b"\r\n--edg\r\n--edgy"
        file = self.upload(content, "user_data", 'a "b" ü.bin'.replace('"', "%22"))
        self.assertEqual(list(file), FILE_KEYS)
        self.assertEqual(file["object"], "file")
        self.assertEqual(file["bytes"], len(content))
        self.assertLess(abs(file["created_at"] - time.time()), 60)
        self.assertEqual((file["purpose"], file["status"]), ("user_data", "processed"))
        self.assertEqual(self.get("/v1/files/" + file["id"]), file)
        self.assertEqual(self.content(file["id"]), content)
        gone = {"id": file["id"], "object": "file", "deleted": True}
        self.assertEqual(self.delete("/v1/files/" + file["id"]), (200, gone))
        for path in ("", "/content"):
            self.assert_error(self.server.get("/v1/files/" + file["id"] + path), 404, "id", "not_found")
        self.assert_error(self.delete("/v1/files/" + file["id"]), 404, "id")

    def test_pages(self):
        ids = [self.upload("x", "evals", f"{i}")["id"] for i in range(5)]
        for order, expected in (("asc", ids), ("desc", ids[::-1])):
            seen, after, more = [], "", True
            while more:
                page = self.get(f"/v1/files?purpose=evals&limit=2&order={order}{after}")
                self.assertEqual(list(page), ["object", "data", "first_id", "last_id", "has_more"])
                found = [file["id"] for file in page["data"]]
                self.assertEqual((page["first_id"], page["last_id"]), (found[0], found[-1]))
                seen, after, more = seen + found, "&after=" + found[-1], page["has_more"]
            self.assertEqual(seen, expected)
        self.assertEqual([file["id"] for file in self.get("/v1/files?purpose=evals")["data"]], ids[::-1])
        none = self.get("/v1/files?purpose=vision")
        self.assertEqual((none["data"], none["first_id"], none["has_more"]), ([], None, False))
        for query, param in (
            ("limit=0", "limit"), ("limit=10001", "limit"), ("limit=x", "limit"),
            ("order=up", "order"), ("after=x", "after"),
        ):  # fmt: skip
            self.assert_error(self.server.get("/v1/files?" + query), 400, param)

    def test_bad_forms(self):
        file, purpose = ("file", "a", b"x"), ("purpose", None, b"batch")
        for parts, param in (
            ([file], "purpose"),
            ([purpose], "file"),
            ([file, ("purpose", None, b"harm")], "purpose"),
            ([("file", None, b"x"), purpose], "file"),
            ([("file", "a", b""), purpose], "file"),
            ([("file", "a" * 5000, b"x"), purpose], "file"),
            ([file, ("purpose", None, b"\xff")], "purpose"),
            ([file, file, purpose], "file"),
        ):
            self.assert_error(self.send(*parts), 400, param)
        self.assert_error(self.send(file, purpose, end=""), 400)
        self.assert_error(self.send(*([file] * 40)), 400)
        for kind in ("application/json", "multipart/form-data", "multipart/mixed; boundary=edge", ""):
            answer = self.server.post("/v1/files", form(file, purpose)[1], headers={"Content-Type": kind})
            self.assert_error(answer, 400)
        headers, body = form(file, purpose)
        answer = self.server.post("/v1/files", body, headers={**headers, "Content-Encoding": "gzip"})
        self.assert_error(answer, 415)

    def test_other_fields_are_named_in_a_warning(self):
        headers, body = form(
            ("purpose", None, b"batch"), ("expires_after[anchor]", None, b"created_at"), ("file", "a", b"x")
        )
        status, answer_headers, _ = self.server.request("/v1/files", body, headers=headers)
        self.assertEqual(status, 200)
        self.assertIn("expires_after[anchor]", answer_headers["warning"])

    def test_paths_of_clients_reach_no_other_file(self):
        for name in ("..%2F..%2Fetc%2Fpasswd", "lock", ".", "%00", "file-" + "0" * 32 + ".json", "batches"):
            for path in ("/v1/files/" + name, "/v1/files/" + name + "/content"):
                self.assertEqual(self.server.request(path)[0], 404, path)

    def test_a_client_that_stops_reading_holds_up_nobody(self):
        file = self.upload(b"x" * (20 << 20))
        slow = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        slow.request("GET", f"/v1/files/{file['id']}/content")
        response = slow.getresponse()
        first = response.read(1000)
        self.assertEqual(len(self.content(file["id"])), file["bytes"])
        self.assertEqual(self.delete("/v1/files/" + file["id"])[0], 200)
        rest = response.read()  # what was removed is still sent to its end
        self.assertEqual(len(first) + len(rest), file["bytes"])
        slow.close()


class BatchesTest(BatchTest):
    def test_the_life_of_a_batch(self):
        text = "".join(line(f"c{i}") for i in range(9)) + line("bad", temperature=9)
        batch = self.create(text, metadata={"k": "v"})
        self.assertEqual(set(batch), BATCH_KEYS)
        self.assertEqual((batch["object"], batch["status"]), ("batch", "validating"))
        ended = self.wait(batch["id"])
        self.assertEqual(set(ended), BATCH_KEYS)
        self.assertEqual(ended["status"], "completed")
        self.assertEqual(ended["request_counts"], {"total": 10, "completed": 9, "failed": 1})
        self.assertEqual((ended["metadata"], ended["errors"]), ({"k": "v"}, None))
        self.assertLessEqual(ended["in_progress_at"], ended["completed_at"])
        good = self.answers(ended["output_file_id"])
        self.assertEqual(set(good), {f"c{i}" for i in range(9)})
        for response in good.values():
            self.assertEqual(response["status_code"], 200)
            self.assertEqual(response["body"]["choices"][0]["text"], "DEFGHIJ")
        bad = self.answers(ended["error_file_id"])
        self.assertEqual(bad["bad"]["status_code"], 400)
        self.assertEqual(bad["bad"]["body"]["error"]["param"], "temperature")
        self.assertEqual(self.get("/v1/files/" + ended["output_file_id"])["purpose"], "batch_output")
        self.assert_error(self.cancel(batch["id"]), 400, "id")
        self.assertEqual(self.delete("/v1/files/" + ended["input_file_id"])[0], 200)
        self.assertEqual(self.wait(batch["id"]), ended)

    def test_chat(self):
        body = {"messages": [{"role": "user", "content": "script:hello"}], "max_tokens": 30}
        request = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
        ended = self.wait(self.create(json.dumps(request), "/v1/chat/completions")["id"])
        answer = self.answers(ended["output_file_id"])["a"]["body"]
        self.assertEqual(answer["choices"][0]["message"]["content"], "hello world!")

    def test_wrong_lines_fail_the_batch(self):
        text = line("a") + "x\n" + line("b", url="/v1/chat/completions") + line("a") + line("c", stream=True)
        ended = self.wait(self.create(text)["id"])
        self.assertEqual(ended["status"], "failed")
        self.assertEqual(ended["errors"]["object"], "list")
        found = [(error["line"], error["code"]) for error in ended["errors"]["data"]]
        codes = ["invalid_line", "mismatched_endpoint", "duplicate_custom_id", "invalid_line"]
        self.assertEqual(found, list(zip((2, 3, 4, 5), codes)))
        self.assertIsNone(ended["output_file_id"])

    def test_errors(self):
        file = self.upload(line("a"))["id"]
        good = {"input_file_id": file, "endpoint": "/v1/completions", "completion_window": "24h"}
        other = self.upload("x", "user_data")["id"]
        for change in (
            {"input_file_id": "file-none"}, {"input_file_id": 5}, {"input_file_id": other},
            {"input_file_id": None},
            {"endpoint": "/v1/none"}, {"endpoint": "/v1/files"}, {"endpoint": None}, {"endpoint": "/health"},
            {"completion_window": "1h"}, {"completion_window": None}, {"completion_window": 24},
            {"metadata": []}, {"metadata": {"a": 1}}, {"metadata": {"a" * 65: "x"}},
            {"metadata": {"a": "x" * 513}},
            {"metadata": {str(i): "x" for i in range(17)}},
        ):  # fmt: skip
            self.assert_error(self.server.post("/v1/batches", {**good, **change}), 400, list(change)[0])
        for body in (b"", b"{", b"[]", b'"x"'):
            self.assert_error(self.server.post("/v1/batches", body), 400)
        self.assert_error(self.server.get("/v1/batches/batch_none"), 404, "id", "not_found")
        self.assert_error(self.cancel("batch_none"), 404, "id", "not_found")
        for query, param in (("limit=101", "limit"), ("after=file-1", "after"), ("order=1", "order")):
            self.assert_error(self.server.get("/v1/batches?" + query), 400, param)

    def test_cancel_while_it_runs_and_other_files_stay(self):
        batch = self.create("".join(line(f"c{i}", "script:slowx") for i in range(200)))
        self.assert_error(self.delete("/v1/files/" + batch["input_file_id"]), 400, "id", "file_in_use")
        self.wait_for_answers(batch["id"], 2)
        status, answer = self.cancel(batch["id"])
        self.assertEqual((status, answer["status"]), (200, "cancelling"))
        ended = self.wait(batch["id"])
        self.assertEqual(ended["status"], "cancelled")
        self.assertGreaterEqual(ended["cancelled_at"], ended["cancelling_at"])
        counts = ended["request_counts"]
        self.assertEqual((counts["total"], counts["failed"]), (200, 0))
        self.assertEqual(len(self.answers(ended["output_file_id"])), counts["completed"])
        self.assertTrue(self.server.wait_idle())
        self.assertEqual(self.cancel(batch["id"])[1], ended)

    def test_others_come_first(self):
        batch = self.create("".join(line(f"c{i}", "script:slow", max_tokens=40) for i in range(40)))
        self.wait_for_answers(batch["id"], 1)
        texts = []

        def ask():
            texts.append(
                self.server.stream("/v1/completions", {"prompt": "script:slowabc", "max_tokens": 99})
            )

        before = self.get(f"/v1/batches/{batch['id']}")["request_counts"]["completed"]
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = self.get(f"/v1/batches/{batch['id']}")["request_counts"]["completed"]
        self.assertEqual({stream.output() for stream in texts}, {"abcdefghijklmnopqrstuvwxyz" * 2})
        # Four streams fill half a second, in which the batch alone would answer four lines and more.
        self.assertLessEqual(after - before, 4)
        self.assertEqual(self.cancel(batch["id"])[0], 200)
        self.wait(batch["id"])


class RestartTest(Batches, unittest.TestCase):
    def test_a_killed_server_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            self.server = Server(batch_dir=folder, max_num_seqs=4)
            batch = self.create("".join(line(f"c{i}", "script:slowabc", max_tokens=60) for i in range(24)))
            waiting = self.create(line("w"))
            for count in (2, 6):
                self.wait_for_answers(batch["id"], count)
                self.server.process.send_signal(signal.SIGKILL)
                self.server.process.wait()
                self.server.stop()
                self.server = Server(batch_dir=folder, max_num_seqs=4)
            ended = self.wait(batch["id"])
            self.assertEqual(ended["request_counts"], {"total": 24, "completed": 24, "failed": 0})
            good = self.answers(ended["output_file_id"])
            self.assertEqual(set(good), {f"c{i}" for i in range(24)})
            texts = {response["body"]["choices"][0]["text"] for response in good.values()}
            self.assertEqual(texts, {"abcdefghijklmnopqrstuvwxyz" * 2})
            self.assertEqual(self.wait(waiting["id"])["status"], "completed")
            self.assertEqual(self.server.stop(), 0)

    def test_a_drain_ends_at_once_and_the_next_server_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            self.server = Server(batch_dir=folder, max_num_seqs=2)
            batch = self.create("".join(line(f"c{i}", "script:slowx", max_tokens=60) for i in range(10)))
            while self.server.blocks()["used"] == 0:
                time.sleep(0.01)
            began = time.monotonic()
            self.assertEqual(self.server.stop(), 0)
            self.assertLess(time.monotonic() - began, 2.4)  # a line takes 2.5 s
            self.server = Server(batch_dir=folder)
            self.assertEqual(self.wait(batch["id"])["request_counts"]["completed"], 10)
            self.assertEqual(self.server.stop(), 0)

    def test_a_second_server_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(batch_dir=folder)
            with self.assertRaisesRegex(RuntimeError, "--batch-dir: another server"):
                Server(batch_dir=folder)
            self.assertEqual(server.stop(), 0)

    def test_a_folder_that_cannot_be_is_refused(self):
        with tempfile.NamedTemporaryFile() as plain:
            with self.assertRaisesRegex(RuntimeError, "--batch-dir"):
                Server(batch_dir=os.path.join(plain.name, "x"))


class WithoutFolderTest(ProtocolTest):
    def test_every_route_names_the_flag(self):
        for method, path in (
            ("POST", "/v1/files"), ("GET", "/v1/files"), ("GET", "/v1/files/x"), ("DELETE", "/v1/files/x"),
            ("GET", "/v1/files/x/content"), ("POST", "/v1/batches"), ("GET", "/v1/batches"),
            ("GET", "/v1/batches/x"), ("POST", "/v1/batches/x/cancel"),
        ):  # fmt: skip
            status, _, body = self.server.request(path, b"{}" if method == "POST" else None, method)
            error = self.assert_error((status, json.loads(body)), 501, code="not_implemented")
            self.assertIn("--batch-dir", error["message"])


class StrictTest(Batches, ProtocolTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.flags = {"batch_dir": cls.folder.name, "strict_params": 1}
        super().setUpClass()
        cls.addClassCleanup(cls.folder.cleanup)

    def test_unknown_fields_are_errors(self):
        parts = [("purpose", None, b"batch"), ("file", "a", b"x"), ("extra", None, b"1")]
        self.assert_error(self.send(*parts), 400, "extra")
        body = {"input_file_id": "x", "endpoint": "/v1/completions", "completion_window": "24h"}
        self.assert_error(self.server.post("/v1/batches", {**body, "extra": 1}), 400, "extra")


class LoadingTest(Batches, unittest.TestCase):
    def test_nothing_is_there_while_the_model_loads(self):
        with tempfile.TemporaryDirectory() as folder:
            self.server = Server(batch_dir=folder, stay_loading=1)
            for path in ("/v1/files", "/v1/batches"):
                status, answer = self.server.get(path)
                self.assertEqual((status, answer["error"]["code"]), (503, "loading"))
            self.assertEqual(self.server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
