#include "cli/sizing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace pagoda::cli {
namespace {

constexpr uint64_t kDefaultKvBytesMax = uint64_t{4} << 30;

int64_t unit_of(char suffix) {
  switch (suffix) {
    case 'k':
      return 1000;
    case 'K':
      return 1024;
    case 'm':
      return 1000 * 1000;
    case 'M':
      return 1024 * 1024;
    case 'g':
      return 1000 * 1000 * 1000;
    case 'G':
      return 1024 * 1024 * 1024;
    default:
      return 0;
  }
}

}  // namespace

Result<int64_t> parse_count(std::string_view text, std::string_view flag) {
  const auto bad = [&] {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format(
            "{} is '{}', but must be a positive whole number, with k, K, m, M, g or G behind it if you like",
            flag, text),
        std::string(flag));
  };
  int64_t unit = 1;
  std::string_view digits = text;
  if (!digits.empty() && unit_of(digits.back()) != 0) {
    unit = unit_of(digits.back());
    digits.remove_suffix(1);
  }
  int64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc{} || end != digits.data() + digits.size() || value <= 0) return bad();
  if (value > std::numeric_limits<int64_t>::max() / unit) return bad();
  return value * unit;
}

std::string format_bytes(uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  if (mib >= 1024) return fmt::format("{:.2f} GiB", mib / 1024);
  return fmt::format("{:.0f} MiB", mib);
}

Result<MemoryPlan> plan_memory(const MemoryRequest& request) {
  const uint64_t block_bytes = kv_block_bytes(request.kv_shape);
  const auto blocks_of = [](int64_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; };
  const auto one_sequence = static_cast<uint64_t>(blocks_of(request.max_model_len)) * block_bytes;
  uint64_t bytes = 0;
  if (request.kv_bytes) {
    bytes = *request.kv_bytes;
  } else {
    const auto usable =
        static_cast<uint64_t>(static_cast<double>(request.memory_limit) * request.memory_fraction);
    const uint64_t taken = request.weight_bytes + request.scratch_bytes;
    bytes = usable > taken ? usable - taken : 0;
    bytes = std::min(bytes, std::max(kDefaultKvBytesMax, one_sequence));
    bytes = std::min(bytes, one_sequence * static_cast<uint64_t>(request.max_num_seqs));
  }
  if (bytes < one_sequence) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("the KV cache gets {}, but one sequence of --max-model-len {} tokens needs {}: raise "
                    "--kv-cache-memory-bytes or --gpu-memory-utilization, or lower --max-model-len",
                    format_bytes(bytes), request.max_model_len, format_bytes(one_sequence)),
        "--kv-cache-memory-bytes");
  }
  MemoryPlan plan;
  plan.num_blocks =
      static_cast<int>(std::min<uint64_t>(bytes / block_bytes, std::numeric_limits<int32_t>::max()));
  plan.kv_bytes = static_cast<uint64_t>(plan.num_blocks) * block_bytes;
  plan.kv_tokens = int64_t{plan.num_blocks} * kKvBlockTokens;
  return plan;
}

}  // namespace pagoda::cli
