// How well a model predicts a text, and how far its predictions are from those of a reference: perplexity,
// KL divergence, top-1 agreement. `pagoda eval` and bench/engine/accuracy_bench share it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/decoder.h"
#include "tensor/aligned_buffer.h"
#include "tensor/kv_storage.h"

namespace pagoda::cli {

// One row of logits: what it says about the token after it.
struct RowScore {
  double nll = 0;        // of the token that the text goes on with, in nats; 0 where there is none
  double kl = 0;         // KL(reference || row) in nats, >= 0; 0 without a reference
  bool same_top = true;  // the most likely token is the reference's
};

// Sums run in double and in the order of the vocabulary. `reference` is empty or as long as `row`; `next` is
// invalid (-1) where nothing is to be predicted.
RowScore score_row(std::span<const float> row, std::span<const float> reference, TokenId next);

// The log-probability of `token`.
double token_logprob(std::span<const float> row, TokenId token);

// Sums over a text.
class TextScore {
 public:
  void add(const RowScore& row, bool predicts);

  int64_t rows() const { return static_cast<int64_t>(kl_.size()); }
  int64_t predicted() const { return predicted_; }
  double nll() const { return nll_; }
  double perplexity() const;  // of the rows that predict; 1 when there are none
  double kl_mean() const;
  double kl_p99() const;          // the smallest value that 99 % of the rows don't exceed
  double top1_agreement() const;  // 0 to 1

 private:
  std::vector<double> kl_;
  double nll_ = 0;
  int64_t predicted_ = 0, same_top_ = 0;
};

// One forward step of a text that is cut into windows: tokens see each other inside a window only.
struct TextStep {
  int64_t position = 0;         // of the first token in its window
  std::vector<TokenId> tokens;  // at most `step`
  std::vector<TokenId> next;    // what comes after each; invalid at the end of a window
};

struct TextCut {
  int64_t window = 1024, step = 128;  // in tokens
  std::optional<TokenId> bos;         // put in front of every window, and part of its length
};

// In every window each token but the first is predicted, given those before it.
std::vector<TextStep> cut_text(std::span<const TokenId> tokens, const TextCut& cut);

// A sequence that has a model, and memory for its keys and values, for itself.
class SingleSequence {
 public:
  SingleSequence(model::Decoder& model, int64_t max_tokens);

  // Runs `tokens` at positions `first`, ...: those before have been run, what was at these is forgotten. One
  // row of logits for each token, [tokens.size()][logits_stride()]. No more tokens than a step of the model
  // has.
  void run(int64_t first, std::span<const TokenId> tokens, float* logits);
  // The same with logits of the last token only.
  void run_last(int64_t first, std::span<const TokenId> tokens, float* logits);

 private:
  void forward(int64_t first, std::span<const TokenId> tokens, std::span<const int64_t> rows, float* logits);

  model::Decoder& model_;
  std::vector<BlockId> blocks_;
  KvStorage kv_;
};

}  // namespace pagoda::cli
