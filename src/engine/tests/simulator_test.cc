#include "engine/tests/simulator.h"

#include <cstdio>

namespace pagoda::engine {
namespace {

TEST(EngineSimulatorTest, RandomRequestsMatchTheReference) {
  const EngineStats sum = simulate_seeds(1, 600, 60);
  // The run is worth something only if it met what it is made for.
  EXPECT_GT(sum.preemptions, 1500u);
  EXPECT_GT(sum.prefix_hits, 100000u);
  EXPECT_GT(sum.rejected, 100u);
  EXPECT_GT(sum.accepted_tokens, 30000u);
  EXPECT_GT(sum.draft_tokens - sum.accepted_tokens, 20000u);
  std::printf("%lu steps, %lu tokens, %lu preemptions, %lu cached tokens, %lu of %lu drafts accepted\n",
              sum.steps, sum.generation_tokens, sum.preemptions, sum.prefix_hits, sum.accepted_tokens,
              sum.draft_tokens);
}

}  // namespace
}  // namespace pagoda::engine
