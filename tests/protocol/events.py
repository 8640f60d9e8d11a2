"""Streams of named events, as /v1/responses and /v1/messages send them."""

import json


class EventStream:
    """The events of a streamed answer as (name, data), with the framing checked."""

    def __init__(self, server, path, body):
        status, self.headers, data = server.request(path, {**body, "stream": True})
        text = data.decode("utf-8", "strict")
        assert status == 200, text
        assert self.headers["content-type"].startswith("text/event-stream"), self.headers
        assert text.endswith("\n\n") and "[DONE]" not in text, text[-200:]
        self.events = []
        for frame in text[:-2].split("\n\n"):
            event, payload = frame.split("\n")
            assert event.startswith("event: ") and payload.startswith("data: "), frame
            parsed = json.loads(payload[len("data: ") :], parse_constant=lambda word: 1 / 0)
            assert parsed["type"] == event[len("event: ") :], frame
            self.events.append(parsed)

    def names(self):
        return [event["type"] for event in self.events]

    def of(self, name):
        return [event for event in self.events if event["type"] == name]

    def last(self):
        return self.events[-1]
