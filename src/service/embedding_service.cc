#include "service/embedding_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace pagoda::service {

int64_t EmbeddingAnswer::total_tokens() const {
  return std::accumulate(num_tokens.begin(), num_tokens.end(), int64_t{0});
}

EmbeddingService::EmbeddingService(engine::PoolingEngine& engine,
                                   std::shared_ptr<const text::Tokenizer> tokenizer, int64_t vocab_size,
                                   std::function<void(std::function<void()>)> post)
    : engine_(engine), tokenizer_(std::move(tokenizer)), vocab_size_(vocab_size), post_(std::move(post)) {
  if (auto ids = tokenizer_->encode("", {})) empty_text_ = std::move(*ids);
}

// Text keeps the special tokens at its end, as the model was trained with them.
void EmbeddingService::truncate(const EmbeddingInput& input, int64_t limit, std::vector<TokenId>* ids) const {
  if (std::cmp_less_equal(ids->size(), limit)) return;
  std::vector<TokenId> tail;
  if (std::holds_alternative<std::string>(input)) {
    const auto differs = std::mismatch(empty_text_.begin(), empty_text_.end(), ids->begin(), ids->end());
    tail.assign(differs.first, empty_text_.end());
    if (std::cmp_greater(tail.size(), limit) || !std::equal(tail.rbegin(), tail.rend(), ids->rbegin())) {
      tail.clear();
    }
  }
  ids->resize(static_cast<size_t>(limit));
  std::copy(tail.begin(), tail.end(), ids->end() - static_cast<std::ptrdiff_t>(tail.size()));
}

Result<std::vector<TokenId>> EmbeddingService::encode(const EmbeddingRequest& request, size_t index) const {
  const EmbeddingInput& input = request.inputs[index];
  const char* const param = index < request.num_first ? request.first_param : request.param;
  std::vector<TokenId> ids;
  if (const auto* text = std::get_if<std::string>(&input)) {
    // What a user writes is text: it can't become a control token.
    ids = PAGODA_TRY(tokenizer_->encode(
        *text, {.add_special_tokens = request.add_special_tokens, .parse_special_tokens = false}));
  } else {
    ids = std::get<std::vector<TokenId>>(input);
  }
  if (request.truncate_prompt_tokens != 0) {
    const int64_t limit = request.truncate_prompt_tokens < 0
                              ? engine_.max_tokens()
                              : std::min(request.truncate_prompt_tokens, engine_.max_tokens());
    truncate(input, limit, &ids);
  }
  if (ids.empty()) {
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("{} has no tokens; at least one is needed.", param), param);
  }
  if (std::cmp_greater(ids.size(), engine_.max_tokens())) {
    return make_error(
        ErrorKind::kContextLengthExceeded,
        fmt::format("An input has {} tokens; the model takes {} (truncate_prompt_tokens cuts it).",
                    ids.size(), engine_.max_tokens()),
        param);
  }
  for (const TokenId id : ids) {
    if (id.value >= 0 && id.value < vocab_size_) continue;
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("Token id {} is out of vocabulary: ids are 0 to {}.", id.value, vocab_size_ - 1), param);
  }
  return ids;
}

Result<uint64_t> EmbeddingService::embed(const EmbeddingRequest& request, EmbeddingDone done) {
  if (request.dimensions && (*request.dimensions < 1 || *request.dimensions > engine_.width())) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("dimensions must be between 1 and {}, the size of this model's vectors, got {}.",
                    engine_.width(), *request.dimensions),
        "dimensions");
  }
  engine::PoolingRequest work;
  std::vector<int64_t> num_tokens;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    work.sequences.push_back(PAGODA_TRY(encode(request, i)));
    num_tokens.push_back(static_cast<int64_t>(work.sequences.back().size()));
  }
  work.dimensions = request.dimensions.value_or(0);
  work.background = request.background;
  work.done = [post = post_, num_tokens = std::move(num_tokens),
               done = std::move(done)](Result<engine::Vectors> result) {
    // Shared, as std::function wants to be copyable.
    auto shared = std::make_shared<Result<engine::Vectors>>(std::move(result));
    post([num_tokens, done, shared] {
      if (!*shared) return done(std::move(shared->error()));
      done(EmbeddingAnswer{std::move(**shared), num_tokens});
    });
  };
  return engine_.submit(std::move(work));
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double x = a[i], y = b[i];
    dot += x * y;
    aa += x * x;
    bb += y * y;
  }
  return aa == 0 || bb == 0 ? 0 : dot / std::sqrt(aa * bb);
}

}  // namespace pagoda::service
