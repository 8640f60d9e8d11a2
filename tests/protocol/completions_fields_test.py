"""Fields of /v1/completions: best_of, truncation, seeds, the stream's interval."""

import unittest

import client
from client import ProtocolTest, Server

client.SCRIPTS.update(
    {
        "coin": {"pieces": [{"choose": list("abcdefgh")}] * 12},
        "letters": {"pieces": list("abcdefghij")},
        "slowletters": {"pieces": list("abcdefghij"), "delay_ms": 20},
        "stray": {"pieces": [[128], "h", [240, 159], [152, 128], "i", [226, 130], "j"]},
    }
)


class BestOfTest(ProtocolTest):
    def means(self, choices):
        return [sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["tokens"]) for c in choices]

    def test_the_best_are_answered(self):
        fields = {"temperature": 2, "seed": 3, "logprobs": 0, "max_tokens": 12}
        every = self.server.complete("script:coin", n=8, **fields)[1]
        best = self.server.complete("script:coin", n=3, best_of=8, **fields)[1]
        ranked = sorted(
            zip(self.means(every["choices"]), [-c["index"] for c in every["choices"]]), reverse=True
        )
        wanted = [every["choices"][-index]["text"] for _, index in ranked[:3]]
        self.assertEqual([c["text"] for c in best["choices"]], wanted)
        self.assertEqual([c["index"] for c in best["choices"]], [0, 1, 2])
        self.assertEqual(best["usage"], every["usage"])

    def test_scores_are_not_answered_unasked(self):
        body = self.server.complete("script:coin", best_of=4, seed=1)[1]
        self.assertEqual(len(body["choices"]), 1)
        self.assertIsNone(body["choices"][0]["logprobs"])
        self.assertEqual(body["usage"]["completion_tokens"], 48)

    def test_prompt_lists(self):
        body = self.server.complete(["script:hello", "script:letters"], n=2, best_of=3, echo=True)[1]
        self.assertEqual([c["index"] for c in body["choices"]], [0, 1, 2, 3])
        self.assertEqual(
            [c["text"] for c in body["choices"]],
            ["script:hellohello world!"] * 2 + ["script:lettersabcdefghij"] * 2,
        )

    def test_errors(self):
        for fields in (
            {"best_of": 0},
            {"best_of": 1, "n": 2},
            {"best_of": 2, "stream": True},
            {"best_of": 17},
            {"best_of": "2"},
            {"best_of": 1.5},
        ):
            self.assert_error(self.server.complete("x", **fields), 400, "best_of")
        self.assertEqual(
            len(
                self.server.stream(
                    "/v1/completions", {"prompt": "script:hello", "best_of": 2, "n": 2}
                ).finishes(1)
            ),
            1,
        )


class TruncationTest(ProtocolTest):
    def test_minus_one_keeps_what_fits(self):
        body = self.server.complete("p" * 2000 + "script:letters", truncate_prompt_tokens=-1, max_tokens=12)[
            1
        ]
        self.assertEqual(body["usage"]["prompt_tokens"], 500)
        self.assertEqual(body["choices"][0]["text"], "abcdefghij")
        body = self.server.complete("p" * 2000, truncate_prompt_tokens=-1)[1]
        self.assertEqual(body["usage"]["prompt_tokens"], 512 - 16)
        body = self.server.complete("short", truncate_prompt_tokens=-1)[1]
        self.assertEqual(body["usage"]["prompt_tokens"], 5)
        ids = [[9] * 600, [10] * 3]
        body = self.server.complete(ids, truncate_prompt_tokens=-1, max_tokens=500)[1]
        self.assertEqual(body["usage"]["prompt_tokens"], 12 + 3)

    def test_zero_and_less_are_errors(self):
        for value in (0, -2, 1.5, "3"):
            self.assert_error(
                self.server.complete("x", truncate_prompt_tokens=value), 400, "truncate_prompt_tokens"
            )


class OffsetTest(ProtocolTest):
    def test_every_token_has_the_place_of_its_first_character(self):
        choice = self.server.complete("script:stray", logprobs=0)[1]["choices"][0]
        text, logprobs = choice["text"], choice["logprobs"]
        self.assertEqual(text, "\ufffdh\U0001f600i\ufffdj")
        self.assertEqual(logprobs["text_offset"], [0, 1, 2, 2, 3, 4, 5])


class SeedTest(unittest.TestCase):
    def texts(self, **flags):
        server = Server(**flags)
        try:
            return [server.complete("script:coin", max_tokens=12)[1]["choices"][0]["text"] for _ in range(4)]
        finally:
            self.assertEqual(server.stop(), 0)

    def test_a_server_with_a_seed_repeats_itself(self):
        first = self.texts(seed=7)
        self.assertEqual(self.texts(seed=7), first)
        self.assertNotEqual(self.texts(seed=8), first)
        self.assertEqual(len(set(first)), 4, "requests differ from each other")
        self.assertNotEqual(self.texts(), self.texts())


class IntervalTest(ProtocolTest):
    flags = {"stream_interval": 4}

    def test_tokens_come_together(self):
        stream = self.server.stream("/v1/completions", {"prompt": "script:slowletters"})
        self.assertEqual(stream.output(), "abcdefghij")
        deltas = stream.deltas()
        self.assertEqual(deltas[0], "a")
        # A slow reader may get more at once, but never less.
        self.assertGreater(len(deltas), 2)
        self.assertTrue(all(len(delta) >= 4 for delta in deltas[1:-1]), deltas)
        self.assertEqual(self.server.complete("script:letters")[1]["choices"][0]["text"], "abcdefghij")
        stream = self.server.stream("/v1/completions", {"prompt": "script:letters", "stop": ["g"]})
        self.assertEqual((stream.output(), stream.finishes()), ("abcdef", ["stop"]))


if __name__ == "__main__":
    unittest.main()
