#include "model/decoder_embedder.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda::model {
namespace {

constexpr int64_t kBatchSequences = 64;

int64_t blocks_of(int64_t tokens) {
  return (tokens + kKvBlockTokens - 1) / kKvBlockTokens;
}

}  // namespace

DecoderEmbedder::DecoderEmbedder(Decoder& decoder, const DecoderEmbedderOptions& options)
    : decoder_(decoder),
      options_(options),
      kv_(decoder.kv_shape(),
          static_cast<int>(blocks_of(std::max(options.max_tokens, options.batch_tokens)) + kBatchSequences)),
      pooler_(options.pooling, decoder.config().hidden_size) {
  for (int block = 0; block < kv_.num_blocks(); ++block) blocks_.push_back(BlockId{block});
  for (int64_t row = 0; row < options.step_tokens; ++row) rows_.push_back(row);
  hidden_.resize(static_cast<size_t>(options.step_tokens * decoder.config().hidden_size));
}

int64_t DecoderEmbedder::width() const {
  return decoder_.config().hidden_size;
}
int64_t DecoderEmbedder::batch_sequences() const {
  return kBatchSequences;
}

void DecoderEmbedder::run_step(std::span<const EmbedTask> batch) {
  tokens_.clear();
  sequences_.clear();
  for (const Piece& piece : pieces_) {
    const auto tokens = batch[piece.task].tokens;
    const auto needed = static_cast<size_t>(blocks_of(piece.first + piece.count));
    sequences_.push_back({static_cast<int64_t>(tokens_.size()), piece.count, piece.first,
                          std::span(blocks_).subspan(static_cast<size_t>(first_block_[piece.task]), needed)});
    const auto part = tokens.subspan(static_cast<size_t>(piece.first), static_cast<size_t>(piece.count));
    tokens_.insert(tokens_.end(), part.begin(), part.end());
  }
  decoder_.forward_hidden(
      {.tokens = tokens_, .sequences = sequences_, .logit_rows = std::span(rows_).first(tokens_.size())}, kv_,
      hidden_.data());
  const float* row = hidden_.data();
  for (const Piece& piece : pieces_) {
    if (piece.first == 0) pooler_.begin();
    for (int64_t i = 0; i < piece.count; ++i, row += width()) pooler_.add(row);
    const EmbedTask& task = batch[piece.task];
    if (piece.first + piece.count == static_cast<int64_t>(task.tokens.size())) pooler_.finish(task.vector);
  }
  pieces_.clear();
}

void DecoderEmbedder::embed(std::span<const EmbedTask> batch) noexcept {
  first_block_.clear();
  int64_t next_block = 0;
  for (const EmbedTask& task : batch) {
    first_block_.push_back(next_block);
    next_block += blocks_of(static_cast<int64_t>(task.tokens.size()));
  }
  PAGODA_CHECK(next_block <= kv_.num_blocks(), "{} blocks of {}", next_block, kv_.num_blocks());
  // In order, so that at most one sequence is unfinished at a time and one pooler suffices.
  int64_t room = options_.step_tokens;
  for (size_t index = 0; index < batch.size(); ++index) {
    const auto count = static_cast<int64_t>(batch[index].tokens.size());
    for (int64_t first = 0; first < count;) {
      const int64_t taken = std::min(room, count - first);
      pieces_.push_back({index, first, taken});
      first += taken;
      room -= taken;
      if (room > 0) continue;
      run_step(batch);
      room = options_.step_tokens;
    }
  }
  if (!pieces_.empty()) run_step(batch);
}

}  // namespace pagoda::model
