#include "cli/eval_score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace pagoda::cli {
namespace {

size_t argmax_of(std::span<const float> row) {
  return static_cast<size_t>(std::ranges::max_element(row) - row.begin());
}

// The logarithm of the sum of exp(value).
double log_sum_exp(std::span<const float> row) {
  const double largest = row[argmax_of(row)];
  double sum = 0;
  for (const float value : row) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

}  // namespace

RowScore score_row(std::span<const float> row, std::span<const float> reference, TokenId next) {
  RowScore score;
  const double norm = log_sum_exp(row);
  if (next.value >= 0) score.nll = norm - row[static_cast<size_t>(next.value)];
  if (reference.empty()) return score;
  const double reference_norm = log_sum_exp(reference);
  double sum = 0;
  for (size_t v = 0; v < row.size(); ++v) {
    const double p = std::exp(reference[v] - reference_norm);
    sum += p * (double{reference[v]} - double{row[v]});
  }
  // sum p (log p - log q), less its rounding below 0
  score.kl = std::max(0.0, sum - reference_norm + norm);
  score.same_top = argmax_of(reference) == argmax_of(row);
  return score;
}

double token_logprob(std::span<const float> row, TokenId token) {
  return row[static_cast<size_t>(token.value)] - log_sum_exp(row);
}

void TextScore::add(const RowScore& row, bool predicts) {
  kl_.push_back(row.kl);
  nll_ += row.nll;
  predicted_ += predicts;
  same_top_ += row.same_top;
}

double TextScore::perplexity() const {
  return predicted_ == 0 ? 1.0 : std::exp(nll_ / static_cast<double>(predicted_));
}

double TextScore::kl_mean() const {
  return kl_.empty() ? 0.0 : std::accumulate(kl_.begin(), kl_.end(), 0.0) / static_cast<double>(kl_.size());
}

double TextScore::kl_p99() const {
  if (kl_.empty()) return 0.0;
  std::vector<double> sorted = kl_;
  const auto rank = (static_cast<int64_t>(sorted.size()) * 99 + 99) / 100;  // nearest rank, counted from 1
  const auto nth = sorted.begin() + (rank - 1);
  std::ranges::nth_element(sorted, nth);
  return *nth;
}

double TextScore::top1_agreement() const {
  return kl_.empty() ? 1.0 : static_cast<double>(same_top_) / static_cast<double>(kl_.size());
}

std::vector<TextStep> cut_text(std::span<const TokenId> tokens, const TextCut& cut) {
  const auto own = static_cast<size_t>(cut.window - (cut.bos ? 1 : 0));
  std::vector<TextStep> steps;
  for (size_t begin = 0; begin < tokens.size(); begin += own) {
    const auto part = tokens.subspan(begin, std::min(own, tokens.size() - begin));
    std::vector<TokenId> window(part.begin(), part.end());
    if (cut.bos) window.insert(window.begin(), *cut.bos);
    const auto size = std::ssize(window);
    for (int64_t at = 0; at < size; at += cut.step) {
      const int64_t end = std::min(at + cut.step, size);
      TextStep step;
      step.position = at;
      step.tokens.assign(window.begin() + at, window.begin() + end);
      step.next.assign(window.begin() + at + 1, window.begin() + std::min(end + 1, size));
      step.next.resize(step.tokens.size(), TokenId{-1});
      steps.push_back(std::move(step));
    }
  }
  return steps;
}

SingleSequence::SingleSequence(model::Decoder& model, int64_t max_tokens) : model_(model) {
  for (int64_t i = 0; i * kKvBlockTokens < max_tokens; ++i) blocks_.push_back({static_cast<int32_t>(i)});
  kv_ = KvStorage(model.kv_shape(), static_cast<int>(blocks_.size()));
}

void SingleSequence::run(int64_t first, std::span<const TokenId> tokens, float* logits) {
  std::vector<int64_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  forward(first, tokens, rows, logits);
}

void SingleSequence::run_last(int64_t first, std::span<const TokenId> tokens, float* logits) {
  const int64_t row = std::ssize(tokens) - 1;
  forward(first, tokens, {&row, 1}, logits);
}

void SingleSequence::forward(int64_t first, std::span<const TokenId> tokens, std::span<const int64_t> rows,
                             float* logits) {
  PAGODA_CHECK(first + std::ssize(tokens) <= std::ssize(blocks_) * kKvBlockTokens, "{} tokens behind {}",
               tokens.size(), first);
  kernels::AttentionSequence sequence;
  sequence.num_tokens = std::ssize(tokens);
  sequence.first_position = first;
  sequence.block_table = blocks_;
  model_.forward({tokens, {&sequence, 1}, rows}, kv_, logits);
}

}  // namespace pagoda::cli
