#include "base/cpu_info.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

namespace pagoda {

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa_name(isa) == name) return isa;
  }
  return std::nullopt;
}

Isa detect_isa() {
  // The builtins check CPUID and, through XGETBV, that the operating system saves the registers.
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
  if (avx512) return Isa::kAvx512;
  return avx2 ? Isa::kAvx2 : Isa::kScalar;
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= detect_isa()) all.push_back(isa);
  }
  return all;
}

Result<Isa> choose_isa() {
  const char* forced = std::getenv("PAGODA_FORCE_ISA");
  if (forced == nullptr || *forced == '\0') return detect_isa();
  const auto isa = isa_from_name(forced);
  if (!isa) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("PAGODA_FORCE_ISA is '{}', but must be one of scalar, avx2, avx512", forced),
        "PAGODA_FORCE_ISA");
  }
  if (*isa > detect_isa()) {
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("PAGODA_FORCE_ISA is '{}', but this CPU's highest tier is {}", forced,
                                  isa_name(detect_isa())),
                      "PAGODA_FORCE_ISA");
  }
  return *isa;
}

std::string cpu_model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

}  // namespace pagoda
