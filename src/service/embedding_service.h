// Vectors of texts, and scores that are made of them. Knows text and tokens, no JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/pooling_engine.h"
#include "text/tokenizer.h"

namespace pagoda::service {

using EmbeddingInput = std::variant<std::string, std::vector<TokenId>>;

struct EmbeddingRequest {
  std::vector<EmbeddingInput> inputs;  // one or more
  const char* param = "input";         // the request's field, for errors
  const char* first_param = "";        // that of the first `num_first` inputs
  size_t num_first = 0;
  bool add_special_tokens = true;
  // Keep the first so many tokens of each input, special ones included; 0 = off, -1 = what the model takes.
  int64_t truncate_prompt_tokens = 0;
  bool background = false;            // runs when nothing else does
  std::optional<int64_t> dimensions;  // the first so many numbers, made length 1 again
};

struct EmbeddingAnswer {
  engine::Vectors vectors;          // one for each input
  std::vector<int64_t> num_tokens;  // likewise
  int64_t total_tokens() const;
};

using EmbeddingDone = std::function<void(Result<EmbeddingAnswer>)>;

class EmbeddingService {
 public:
  // `post` runs work on the text pool. The engine must outlive the service; stop it first.
  EmbeddingService(engine::PoolingEngine& engine, std::shared_ptr<const text::Tokenizer> tokenizer,
                   int64_t vocab_size, std::function<void(std::function<void()>)> post);

  // On the text pool: encodes, checks and submits. `done` is called once, on the text pool, unless an error
  // is returned. The number is for cancel().
  Result<uint64_t> embed(const EmbeddingRequest& request, EmbeddingDone done);
  void cancel(uint64_t id) { engine_.cancel(id); }
  engine::PoolingStats stats() const { return engine_.stats(); }
  int64_t width() const { return engine_.width(); }

 private:
  Result<std::vector<TokenId>> encode(const EmbeddingRequest& request, size_t index) const;
  void truncate(const EmbeddingInput& input, int64_t limit, std::vector<TokenId>* ids) const;

  engine::PoolingEngine& engine_;
  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const int64_t vocab_size_;
  const std::function<void(std::function<void()>)> post_;
  std::vector<TokenId> empty_text_;  // what the tokenizer makes of it: the special tokens around every text
};

// Of two vectors of one size, whatever their lengths; 0 when one is zero.
double cosine(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace pagoda::service
