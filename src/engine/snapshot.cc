#include "engine/snapshot.h"

#include <algorithm>

namespace pagoda::engine {
namespace {

const char* state_name(SequenceState state) {
  switch (state) {
    case SequenceState::kWaiting:
      return "waiting";
    case SequenceState::kPreempted:
      return "preempted";
    case SequenceState::kRunning:
    case SequenceState::kFinished:
      return "running";
  }
  return "";
}

// A request runs when any of its choices does.
SequenceState state_of(const Request& request) {
  const auto any_is = [&](SequenceState state) {
    return std::ranges::any_of(request.sequences, [&](const auto& s) { return s->state == state; });
  };
  if (any_is(SequenceState::kRunning)) return SequenceState::kRunning;
  return any_is(SequenceState::kPreempted) ? SequenceState::kPreempted : SequenceState::kWaiting;
}

}  // namespace

void Snapshot::update(const RequestTable& requests, const Scheduler& scheduler, const kv::BlockPool& pool,
                      const EngineStats& totals) {
  EngineStats stats = totals;
  stats.running = static_cast<int>(scheduler.running().size());
  stats.waiting = static_cast<int>(scheduler.waiting().size());
  stats.blocks_total = pool.total();
  stats.blocks_used = pool.num_used();
  stats.blocks_cached = pool.num_cached();
  stats.blocks_free = pool.num_free();
  last_seen_.resize(static_cast<size_t>(pool.total()));
  next_.clear();
  requests.for_each([&](const Request& request) { next_.push_back(describe(request)); });
  const std::lock_guard lock(mutex_);
  stats_ = stats;
  rows_.swap(next_);
}

Snapshot::Row Snapshot::describe(const Request& request) {
  Row row{.id = request.spec.id,
          .state = state_of(request),
          .choices = request.live_choices,
          .prompt_tokens = request.num_prompt,
          .output_tokens = request.times.output_tokens};
  row.blocks = request.sequences.size() == 1 ? request.sequences.front()->table.size()
                                             : count_distinct_blocks(request);
  return row;
}

int Snapshot::count_distinct_blocks(const Request& request) {
  ++calls_;
  int count = 0;
  for (const auto& sequence : request.sequences) {
    for (const BlockId block : sequence->table.blocks()) {
      uint32_t& seen = last_seen_[static_cast<size_t>(block.value)];
      if (seen != calls_) ++count;
      seen = calls_;
    }
  }
  return count;
}

EngineStats Snapshot::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

BlocksSnapshot Snapshot::blocks() const {
  std::vector<Row> rows;
  BlocksSnapshot blocks;
  {
    const std::lock_guard lock(mutex_);
    rows = rows_;
    blocks = {.total = stats_.blocks_total,
              .used = stats_.blocks_used,
              .free = stats_.blocks_free,
              .cached = stats_.blocks_cached,
              .block_size = kKvBlockTokens,
              .requests = {}};
  }
  blocks.requests.reserve(rows.size());
  for (const Row& row : rows) {
    blocks.requests.push_back({.id = row.id,
                               .state = state_name(row.state),
                               .choices = row.choices,
                               .prompt_tokens = row.prompt_tokens,
                               .output_tokens = row.output_tokens,
                               .blocks = row.blocks});
  }
  std::ranges::sort(blocks.requests, {}, &BlocksSnapshot::Request::id);
  return blocks;
}

}  // namespace pagoda::engine
