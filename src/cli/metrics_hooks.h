// Engine happenings as metrics.
#pragma once

#include "engine/engine.h"
#include "telemetry/metrics.h"

namespace pagoda::cli {

// `metrics` must outlive the engine that gets the observer.
engine::EngineObserver metrics_observer(telemetry::Metrics& metrics);

// The gauges and totals that the engine keeps itself.
void publish_stats(const engine::EngineStats& stats, telemetry::Metrics& metrics);

}  // namespace pagoda::cli
