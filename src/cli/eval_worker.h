// The process of one model under `pagoda eval`: it loads the model, and answers what its parent asks over a
// socket, a line of JSON each way. Logits go through memory that both map. A process of its own makes its
// peak memory that of this model alone, and ends without a trace if the system runs out of memory.
//
// The first line is the worker's: {vocab, stride, step, weight_bytes, layout} or {error}. Then, per request:
//   {op: "logits", position, tokens}  a row of logits for each token, in the shared memory -> {}
//   {op: "run", prompt, new_tokens, rounds}  token ids and then single tokens, the median of the rounds
//                                     -> {prefill, decode, memory_bytes}: tokens/s, and the highest VmHWM
//   {op: "choices", context, continuations}  texts -> {logprobs: [...]} or {unusable: why}
//   {op: "complete", prompts, max_tokens, stop}  once: texts -> {index, text} or {index, unusable} for each,
//   as
//                                     they are done, then {}
// {error} may be the answer to any of them. The worker ends when its parent closes the socket, or dies.
#pragma once

#include "base/result.h"
#include "cli/flags.h"

namespace pagoda::cli {

// Where the parent puts them.
inline constexpr int kEvalSocketFd = 3, kEvalLogitsFd = 4;

// Tokens of one forward step over a text. It changes the time only.
inline constexpr int64_t kEvalStepTokens = 128;

Result<void> run_eval_worker(const EngineFlags& flags);

}  // namespace pagoda::cli
