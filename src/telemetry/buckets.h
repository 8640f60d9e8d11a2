// Upper bounds of the histograms. vLLM's published dashboard computes quantiles over these bounds, so that
// bounds may be added but never removed.
#pragma once

#include <cstdint>
#include <vector>

namespace pagoda::telemetry {

// Whole requests and their phases, in seconds.
std::vector<double> latency_buckets();

// Time to the first token, in seconds.
std::vector<double> ttft_buckets();

// Time between two tokens of one choice, in seconds.
std::vector<double> inter_token_buckets();

// 1, 2, 5, 10, 20, 50, ... up to `max`, at least 1: token counts of a request.
std::vector<double> one_two_five_buckets(int64_t max);

// Number of choices of a request.
std::vector<double> choice_buckets();

// Tokens in one step: vLLM's powers of two together with 1-2-5.
std::vector<double> step_token_buckets();

// Duration of one step, in seconds: from a tiny model's decode step to a full prefill chunk of a large one.
std::vector<double> step_seconds_buckets();

// Duration of an HTTP request, in seconds: those of vLLM's HTTP instrumentation (.1, .5, 1) and around them.
std::vector<double> http_buckets();

}  // namespace pagoda::telemetry
