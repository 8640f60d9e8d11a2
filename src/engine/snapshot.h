// What other threads may see of the engine: a copy made at the end of each step.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/engine.h"
#include "engine/request_table.h"
#include "engine/scheduler.h"
#include "kv/block_pool.h"

namespace pagoda::engine {

class Snapshot {
 public:
  // Engine thread. `totals` brings the counters; the gauges are filled in here. Allocates only while it
  // grows.
  void update(const RequestTable& requests, const Scheduler& scheduler, const kv::BlockPool& pool,
              const EngineStats& totals);

  // --- any thread ---
  EngineStats stats() const;
  BlocksSnapshot blocks() const;

 private:
  struct Row {
    RequestId id;
    SequenceState state = SequenceState::kWaiting;
    int choices = 0;
    int64_t prompt_tokens = 0, output_tokens = 0;
    int blocks = 0;
  };
  Row describe(const Request& request);
  int count_distinct_blocks(const Request& request);

  std::vector<Row> next_;            // engine thread; swapped in under the mutex
  std::vector<uint32_t> last_seen_;  // per block: the count_distinct_blocks() call that met it last
  uint32_t calls_ = 0;

  mutable std::mutex mutex_;
  EngineStats stats_;
  std::vector<Row> rows_;
};

}  // namespace pagoda::engine
