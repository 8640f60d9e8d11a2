// The engine's hooks and counters as metrics.
#pragma once

#include "engine/engine.h"
#include "telemetry/metrics.h"

namespace pagoda::service {

// Hooks that feed the histograms and token counters; `metrics` must outlive the engine.
engine::EngineObserver observe_engine(telemetry::Metrics& metrics);

// Gauges and totals as of now; called before a scrape.
void update_metrics(const engine::EngineStats& stats, telemetry::Metrics& metrics);

}  // namespace pagoda::service
