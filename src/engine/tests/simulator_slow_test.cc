#include <cstdlib>

#include "engine/tests/simulator.h"

namespace pagoda::engine {
namespace {

// PAGODA_SIMULATOR_SEED starts elsewhere, to hunt or to repeat a failure.
TEST(EngineSimulatorSlowTest, ManySeeds) {
  const char* from_env = std::getenv("PAGODA_SIMULATOR_SEED");
  const auto first = static_cast<uint32_t>(from_env != nullptr ? std::strtoul(from_env, nullptr, 10) : 1000);
  const EngineStats sum = simulate_seeds(first, 10000, 100);
  EXPECT_GT(sum.preemptions, 50000u);
  EXPECT_GT(sum.prefix_hits, 1000000u);
  EXPECT_GT(sum.accepted_tokens, 300000u);
  EXPECT_GT(sum.draft_tokens - sum.accepted_tokens, 300000u);
}

}  // namespace
}  // namespace pagoda::engine
