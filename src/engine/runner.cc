#include "engine/runner.h"

#include <exception>

#include "base/check.h"
#include "base/log.h"

namespace pagoda::engine {

Runner::Runner(model::Model& model, KvStorage& kv, const EngineOptions& options, ComputePool& pool)
    : model_(model),
      kv_(kv),
      pool_(pool),
      vocab_size_(model.config().vocab_size),
      stride_(model.logits_stride()),
      max_rows_(max_logit_rows(options)),
      logits_(static_cast<size_t>(max_rows_ * stride_) * sizeof(float)),
      masks_(vocab_size_) {
  PAGODA_CHECK(stride_ >= vocab_size_, "rows of {} logits are {} apart", vocab_size_, stride_);
  for (int i = 0; i < pool.num_threads(); ++i) workers_.push_back({sampling::Sampler(vocab_size_), {}, {}});
}

std::span<float> Runner::logits(int64_t row) {
  return {logits_.as<float>() + row * stride_, static_cast<size_t>(vocab_size_)};
}

void Runner::run(Batch& batch) noexcept {
  PAGODA_CHECK(batch.num_logit_rows() <= max_rows_, "{} rows of {}", batch.num_logit_rows(), max_rows_);
  masks_.begin(batch.samples());
  model_.forward(batch.input(), kv_, logits_.as<float>());
  auto& samples = batch.samples();
  auto& scores = batch.scores();
  const auto num_samples = static_cast<int>(samples.size());
  pool_.run(num_samples + static_cast<int>(scores.size()), [&](int task, int worker) {
    if (task < num_samples) {
      SampleTask& sample_task = samples[static_cast<size_t>(task)];
      Worker& scratch = workers_[static_cast<size_t>(worker)];
      if (sample_task.sequence->request->constraint(sample_task.choice) == nullptr) {
        sample(sample_task, scratch);
      } else if (sample_task.drafts == 0) {
        sample_constrained(batch, sample_task, scratch);
      }
    } else {
      score(scores[static_cast<size_t>(task - num_samples)]);
    }
  });
}

void Runner::draw(SampleTask& task, Worker& worker, std::span<const uint32_t> mask) {
  std::span<float> row = logits(task.row);
  if (task.shares_row) {
    worker.row.assign(row.begin(), row.end());
    row = worker.row;
  }
  const Request& request = *task.sequence->request;
  task.result = worker.sampler.sample(row, request.spec.sampling, task.sequence->history(task.drafts),
                                      static_cast<uint32_t>(task.choice), mask);
}

void Runner::fail(SampleTask& task, const std::string& why) noexcept {
  task.failed = true;
  log::error("sampling for request {} failed: {}", task.sequence->request->spec.id.value, why);
}

void Runner::sample(SampleTask& task, Worker& worker) noexcept {
  try {
    draw(task, worker, {});
  } catch (const std::exception& e) {
    fail(task, e.what());
  }
}

// All rows of one choice, one after the other, as each mask depends on the tokens before it; only the first
// one was known beside the forward pass. It ends with the first wrong draft, so that the constraint never
// takes a token that the sequence does not.
void Runner::sample_constrained(Batch& batch, SampleTask& first, Worker& worker) noexcept {
  const std::span rows(&first, static_cast<size_t>(first.num_rows));
  const std::span<const TokenId> drafts = batch.drafts(first);
  sampling::TokenConstraint& constraint = *first.sequence->request->constraint(first.choice);
  worker.mask.resize(sampling::mask_words(static_cast<size_t>(vocab_size_)));
  const auto mask_of = [&](size_t row) -> Result<std::span<const uint32_t>> {
    if (row == 0) return masks_.take(static_cast<size_t>(&first - batch.samples().data()));
    PAGODA_TRY(constraint.fill_mask(worker.mask));
    return std::span<const uint32_t>(worker.mask);
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    SampleTask& task = rows[i];
    try {
      const auto mask = mask_of(i);
      if (!mask) return fail(task, mask.error().message);
      draw(task, worker, *mask);
      const Result<bool> accepted = constraint.accept(task.result.token);
      if (!accepted) return fail(task, accepted.error().message);
      task.complete = *accepted;
    } catch (const std::exception& e) {
      return fail(task, e.what());
    }
    if (task.complete || i == drafts.size() || task.result.token != drafts[i]) return;
  }
}

void Runner::score(ScoreTask& task) noexcept {
  const auto entry = static_cast<size_t>(task.position);
  try {
    (*task.request->prompt_scores)[entry] =
        sampling::score_token(logits(task.row), task.token, task.request->spec.prompt_logprobs);
  } catch (const std::exception& e) {
    task.failed = true;
    log::error("scoring the prompt of request {} failed: {}", task.request->spec.id.value, e.what());
  }
}

}  // namespace pagoda::engine
