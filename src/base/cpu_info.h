// Which instruction-set tier the kernels run on.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pagoda {

// Ordered: every tier includes the ones before it.
enum class Isa {
  kScalar,
  kAvx2,    // AVX2, FMA, F16C
  kAvx512,  // AVX-512 F, BW, DQ, VL, VNNI and BF16 (Zen4, Zen5, Cooper Lake, Sapphire Rapids)
};

std::string_view isa_name(Isa isa);  // "scalar", "avx2", "avx512"
std::optional<Isa> isa_from_name(std::string_view name);

// The highest tier of this CPU and operating system, by CPUID.
Isa detect_isa();

// Every tier this CPU can run, lowest first; tests loop over it.
std::vector<Isa> supported_isas();

// The tier in use: PAGODA_FORCE_ISA if set, else detect_isa(). kInvalidArgument if the variable names no tier
// or one this CPU lacks.
Result<Isa> choose_isa();

// "AMD EPYC 9R14" and the like, for the start-up block.
std::string cpu_model_name();

}  // namespace pagoda
