// The engine's hooks and counters as metrics.
#pragma once

#include <cstdint>
#include <mutex>

#include "engine/engine.h"
#include "telemetry/metrics.h"

namespace pagoda::service {

// Hooks that feed the histograms; `metrics` must outlive the engine.
engine::EngineObserver observe_engine(telemetry::Metrics& metrics);

// Brings gauges and totals, tokens included, up to date before a scrape: long generations show while they
// run. One per Metrics. Thread-safe.
class EngineTotals {
 public:
  explicit EngineTotals(telemetry::Metrics& metrics) : metrics_(metrics) {}
  void update(const engine::EngineStats& stats);

 private:
  telemetry::Metrics& metrics_;
  std::mutex mutex_;
  uint64_t prompt_tokens_ = 0, generation_tokens_ = 0;  // as last reported
};

}  // namespace pagoda::service
