#include "cli/speculative_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace pagoda::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kFlag = "--speculative-config";
constexpr int kDefaultMin = 6, kDefaultMax = 32;
constexpr int kMostLookup = 256;  // tokens; a longer match foretells no better

Error config_error(const std::string& what) {
  return make_error(ErrorKind::kInvalidArgument, fmt::format("{}: {}", kFlag, what), kFlag);
}

// A value as the user wrote it, cut where it would fill the screen.
std::string shown(const Json& value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

struct Range {
  int least, most;
};

// nullopt where the key is missing or null.
Result<std::optional<int>> read_int(const Json& config, const char* key, Range range) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::optional<int>();
  const auto refused = [&] {
    return config_error(fmt::format("{} is {}; it must be an integer from {} to {}", key, shown(*found),
                                    range.least, range.most));
  };
  if (!found->is_number_integer()) return refused();
  // Unsigned values beyond int64 wrap around to negative ones, which no range here has.
  const auto value = found->get<int64_t>();
  if (value < range.least || value > range.most) return refused();
  return std::optional<int>(static_cast<int>(value));
}

Result<void> check_keys(const Json& config) {
  static constexpr std::string_view kKeys[] = {"method", "num_speculative_tokens", "prompt_lookup_min",
                                               "prompt_lookup_max"};
  for (const auto& [key, value] : config.items()) {
    if (std::ranges::find(kKeys, key) != std::end(kKeys)) continue;
    return config_error(
        fmt::format("the key {} (value {}) is not known here; there are method, "
                    "num_speculative_tokens, prompt_lookup_min and prompt_lookup_max",
                    shown(key), shown(value)));
  }
  const auto method = config.find("method");
  if (method == config.end()) return config_error("method is missing; the only one here is \"ngram\"");
  if (*method != "ngram") {
    return config_error(fmt::format("method is {}; the only one here is \"ngram\"", shown(*method)));
  }
  return {};
}

}  // namespace

Result<engine::SpeculationOptions> parse_speculative_config(const std::string& text) {
  engine::SpeculationOptions options;
  if (text == "off") return options;
  options = {.num_tokens = kMostSpeculativeTokens, .min_match = kDefaultMin, .max_match = kDefaultMax};
  if (text == "ngram") return options;
  const Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return config_error(fmt::format(
        "{} is neither a JSON object like {{\"method\": \"ngram\"}} nor one of the words ngram and off",
        config.is_discarded() ? shown(Json(text)) : shown(config)));
  }
  PAGODA_TRY(check_keys(config));
  const auto tokens = PAGODA_TRY(read_int(config, "num_speculative_tokens", {1, kMostSpeculativeTokens}));
  const auto least = PAGODA_TRY(read_int(config, "prompt_lookup_min", {1, kMostLookup}));
  const auto most = PAGODA_TRY(read_int(config, "prompt_lookup_max", {least.value_or(1), kMostLookup}));
  options.num_tokens = tokens.value_or(kMostSpeculativeTokens);
  options.min_match = least.value_or(std::min(kDefaultMin, most.value_or(kDefaultMin)));
  options.max_match = most.value_or(std::max(kDefaultMax, options.min_match));
  return options;
}

}  // namespace pagoda::cli
