#include "kernels/isa.h"

#include <gtest/gtest.h>

namespace pagoda::kernels {
namespace {

TEST(Isa, EverySupportedTierCanBeSet) {
  const Isa before = current_isa();
  for (const Isa isa : supported_isas()) {
    set_isa(isa);
    EXPECT_EQ(current_isa(), isa);
  }
  set_isa(before);
}

TEST(IsaDeathTest, ATierThatTheCpuLacksIsABug) {
  if (detect_isa() == Isa::kAvx512) GTEST_SKIP() << "this CPU has every tier";
  EXPECT_DEATH(set_isa(Isa::kAvx512), "this CPU has no avx512");
}

}  // namespace
}  // namespace pagoda::kernels
