#include "engine/admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "kv/kv_manager.h"

namespace pagoda::engine {
namespace {

Error invalid(std::string message, std::string param) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message), std::move(param));
}

Result<void> check_lengths(const EngineRequest& request, const AdmissionLimits& limits) {
  const auto num_prompt = static_cast<int64_t>(request.prompt.size());
  if (num_prompt == 0) return invalid("the prompt has no tokens; at least 1 is needed", "prompt");
  if (request.max_tokens < 0) {
    return invalid(fmt::format("max_tokens is {}; the least is 0", request.max_tokens), "max_tokens");
  }
  const int64_t longest = request.max_tokens == 0 ? limits.max_model_len : limits.max_model_len - 1;
  if (num_prompt > longest) {
    return make_error(
        ErrorKind::kContextLengthExceeded,
        fmt::format("the prompt has {} tokens and max_tokens is {}, but the maximum context length is {} "
                    "tokens",
                    num_prompt, request.max_tokens, limits.max_model_len),
        "prompt", "context_length_exceeded");
  }
  if (request.n < 1 || request.n > limits.max_num_seqs) {
    return invalid(
        fmt::format("n is {}; it must be from 1 to {} (--max-num-seqs)", request.n, limits.max_num_seqs),
        "n");
  }
  return {};
}

Result<void> check_tokens(const EngineRequest& request, const AdmissionLimits& limits) {
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int32_t id = request.prompt[i].value;
    if (id < 0 || id >= limits.vocab_size) {
      return invalid(
          fmt::format("token {} of the prompt has id {}; ids go from 0 to {}", i, id, limits.vocab_size - 1),
          "prompt");
    }
  }
  return {};
}

Result<void> check_fits_pool(const EngineRequest& request, const AdmissionLimits& limits) {
  const auto num_prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t num_output = std::min(request.max_tokens, limits.max_model_len - num_prompt);
  // The last token of the output is never run, so it takes no slot.
  const int64_t needed = kv::blocks_for(num_prompt + std::max<int64_t>(0, num_output - 1));
  if (needed <= limits.num_blocks) return {};
  const auto block_bytes = static_cast<int64_t>(limits.block_bytes);
  return invalid(
      fmt::format("a prompt of {} tokens with max_tokens {} needs {} KV cache blocks of {} tokens ({} "
                  "bytes), but the "
                  "whole cache has {} ({} bytes): raise --kv-cache-memory-bytes or shorten the request",
                  num_prompt, request.max_tokens, needed, kKvBlockTokens, needed * block_bytes,
                  limits.num_blocks, limits.num_blocks * block_bytes),
      kv::blocks_for(num_prompt) > limits.num_blocks ? "prompt" : "max_tokens");
}

}  // namespace

Result<void> check_request(const EngineRequest& request, const AdmissionLimits& limits) {
  PAGODA_TRY(check_lengths(request, limits));
  PAGODA_CHECK(request.constraints.empty() || std::ssize(request.constraints) == request.n,
               "{} constraints for {} choices", request.constraints.size(), request.n);
  PAGODA_TRY(check_tokens(request, limits));
  return check_fits_pool(request, limits);
}

}  // namespace pagoda::engine
