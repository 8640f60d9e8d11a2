#include "model/packed_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "model/packed_file.h"
#include "tensor/aligned_buffer.h"

namespace pagoda::model {
namespace {

using nlohmann::json;
using Bytes = std::span<const uint8_t>;

constexpr int kFormatVersion = 3;
constexpr std::string_view kMagic = "PAGODAPK";
constexpr size_t kHeadBytes = kMagic.size() + 4 + 8;
constexpr size_t kMaxDirectoryBytes = size_t{16} << 20;  // real ones have some 100 KB
// Copies whole pages of the file cache, of any size.
constexpr size_t kDataAlignment = size_t{2} << 20;

const char* precision_name(WeightPrecision precision) {
  return precision == WeightPrecision::kFloat32 ? "float32" : "native";
}

std::string iso_time(int64_t ns) {
  return fmt::format("{}.{:09}", ns / 1000000000, ns % 1000000000);
}

Result<json> describe_files(const std::vector<ModelFile>& files) {
  json list = json::array();
  for (const ModelFile& file : files) {
    const uint64_t hash = PAGODA_TRY(hash_file_samples(file));
    list.push_back({{"name", std::filesystem::path(file.path).filename().string()},
                    {"bytes", file.bytes},
                    {"modified", iso_time(file.modified_ns)},
                    {"hash", fmt::format("{:016x}", hash)}});
  }
  return list;
}

// All that a weight's bytes depend on but its multipliers.
json describe_weight(const PackedWeightSpec& spec, size_t offset) {
  return {weight_layout_name(spec.layout),
          spec.rows,
          spec.depth,
          spec.group_size,
          spec.has_offsets,
          spec.zero_point,
          offset};
}

Result<json> expected_directory(const PackedCacheKey& key, const WeightPacker& packer) {
  json weights = json::array();
  for (size_t i = 0; i < packer.specs().size(); ++i) {
    weights.push_back(describe_weight(packer.specs()[i], packer.offsets()[i]));
  }
  // A return out of the list below would leak the entries made so far.
  json files = PAGODA_TRY(describe_files(key.files));
  return json{{"format", kFormatVersion},         {"pagoda", key.version},
              {"layouts", kPackedLayoutVersion},  {"precision", precision_name(key.precision)},
              {"quantization", key.quantization}, {"files", std::move(files)},
              {"weights", std::move(weights)},    {"bytes", packer.bytes()}};
}

// A value of the directory in a message; the list of weights is too long for one.
std::string shown(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  constexpr size_t kLongest = 80;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

// "its precision is "float32", not "native"": the first entry that differs; empty when none does.
std::string first_difference(const json& found, const json& expected) {
  for (const char* const key : {"format", "pagoda", "layouts", "precision", "quantization"}) {
    if (!found.contains(key)) return fmt::format("it names no '{}'", key);
    if (found[key] != expected[key]) {
      return fmt::format("its '{}' is {}, this run's {}", key, shown(found[key]), shown(expected[key]));
    }
  }
  const json files = found.value("files", json());
  if (!files.is_array() || files.size() != expected["files"].size())
    return "it is of another set of model files";
  for (size_t i = 0; i < files.size(); ++i) {
    const json& now = expected["files"][i];
    if (!files[i].is_object()) return "it is of another set of model files";
    for (const char* const key : {"name", "bytes", "modified", "hash"}) {
      const json then = files[i].value(key, json());
      if (then != now[key]) {
        return fmt::format("the model file {} has another {} ({}, in the cache {})",
                           now["name"].get<std::string>(), key, shown(now[key]), shown(then));
      }
    }
  }
  if (found.value("weights", json()) != expected["weights"] ||
      found.value("bytes", json()) != expected["bytes"]) {
    return "its weights have other shapes or formats";
  }
  return {};
}

// A wrong byte would show in answers only, at every start, so all are looked at: 0.1 s per gigabyte.
std::string data_checksum(const WeightPacker& packer, const uint8_t* memory, ComputePool& pool) {
  return fmt::format("{:016x}", hash_pieces({memory, packer.bytes()}, pool));
}

json describe_data(const WeightPacker& packer, const uint8_t* memory, ComputePool& pool) {
  json multipliers = json::array();
  for (const PackedWeightSpec& spec : packer.specs()) {
    multipliers.push_back({std::ilogb(spec.scale_multiplier), std::ilogb(spec.offset_multiplier)});
  }
  return {{"multipliers", std::move(multipliers)}, {"checksum", data_checksum(packer, memory, pool)}};
}

std::optional<float> read_multiplier(const json& exponent) {
  if (!exponent.is_number_integer()) return std::nullopt;
  const auto value = exponent.get<int64_t>();
  if (value < -149 || value > 127) return std::nullopt;
  return std::ldexp(1.0f, static_cast<int>(value));
}

Error unusable(std::string why) {
  return make_error(ErrorKind::kCorruptFile, std::move(why));
}

struct Directory {
  json root;
  size_t data_offset = 0;
};

size_t data_offset_of(size_t directory_bytes) {
  return (kHeadBytes + directory_bytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
}

Result<Directory> read_directory(const InputFile& file) {
  if (file.size() < kHeadBytes) return unusable(fmt::format("it has only {} bytes", file.size()));
  uint8_t head[kHeadBytes];
  PAGODA_TRY(file.read(0, head));
  if (std::memcmp(head, kMagic.data(), kMagic.size()) != 0) return unusable("it is no packed cache");
  uint32_t size;
  uint64_t hash;
  std::memcpy(&size, head + kMagic.size(), sizeof(size));
  std::memcpy(&hash, head + kMagic.size() + sizeof(size), sizeof(hash));
  if (size > kMaxDirectoryBytes || size > file.size() - kHeadBytes) {
    return unusable(fmt::format("its directory of {} bytes does not fit", size));
  }
  std::vector<uint8_t> text(size);
  PAGODA_TRY(file.read(kHeadBytes, text));
  if (hash_bytes(text, 0) != hash) return unusable("its directory is damaged (checksum)");
  Directory directory;
  directory.root = json::parse(text.begin(), text.end(), nullptr, false);
  if (!directory.root.is_object()) return unusable("its directory is no JSON object");
  directory.data_offset = data_offset_of(size);
  return directory;
}

// The specs with the multipliers of `root`.
Result<std::vector<PackedWeightSpec>> read_specs(const json& root, const WeightPacker& packer) {
  std::vector<PackedWeightSpec> specs = packer.specs();
  const json multipliers = root.value("multipliers", json());
  if (!multipliers.is_array() || multipliers.size() != specs.size()) {
    return unusable("its directory lacks multipliers");
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const json& pair = multipliers[i];
    const bool is_pair = pair.is_array() && pair.size() == 2;
    const auto scale = is_pair ? read_multiplier(pair[0]) : std::nullopt;
    const auto offset = is_pair ? read_multiplier(pair[1]) : std::nullopt;
    if (!scale || !offset) return unusable(fmt::format("weight {} has no multipliers", i));
    specs[i].scale_multiplier = *scale;
    specs[i].offset_multiplier = *offset;
  }
  return specs;
}

}  // namespace

Result<CachedPanels> PackedCache::load(const WeightPacker& packer, ComputePool& pool) const {
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return make_error(ErrorKind::kNotFound, "there is none yet");
  const InputFile file = PAGODA_TRY(InputFile::open(path_));
  const Directory directory = PAGODA_TRY(read_directory(file));
  const json expected = PAGODA_TRY(expected_directory(key_, packer));
  if (const std::string difference = first_difference(directory.root, expected); !difference.empty()) {
    return unusable(difference);
  }
  const size_t size = directory.data_offset + packer.bytes();
  if (file.size() != size) return unusable(fmt::format("it has {} bytes instead of {}", file.size(), size));
  auto specs = PAGODA_TRY(read_specs(directory.root, packer));
  // Mapping the file would save the copy, and would share the memory of several servers, but file systems
  // give few huge pages: Qwen2.5-Coder-1.5B (1.3 GB) is ready 0.4 s sooner and then decodes 18 to 22 % slower
  // for as long as the server runs. A copy is also safe from a file that shrinks.
  const auto memory = share_buffer(AlignedBuffer(packer.bytes()));
  PAGODA_TRY(file.read(directory.data_offset, {memory.get(), packer.bytes()}, pool));
  if (directory.root.value("checksum", json()) != data_checksum(packer, memory.get(), pool)) {
    return unusable("its panels are damaged (checksum)");
  }
  return CachedPanels{std::move(specs), memory};
}

Result<void> PackedCache::store(const WeightPacker& packer, const uint8_t* memory, ComputePool& pool) const {
  json root = PAGODA_TRY(expected_directory(key_, packer));
  root.update(describe_data(packer, memory, pool));
  const std::string directory = root.dump();
  const auto size = static_cast<uint32_t>(directory.size());
  const uint64_t hash = hash_bytes({reinterpret_cast<const uint8_t*>(directory.data()), directory.size()}, 0);
  std::string head(kMagic);
  head.append(reinterpret_cast<const char*>(&size), sizeof(size));
  head.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  head += directory;
  head.resize(data_offset_of(directory.size()));
  const Bytes head_bytes(reinterpret_cast<const uint8_t*>(head.data()), head.size());
  return replace_file(path_, {head_bytes, Bytes(memory, packer.bytes())});
}

Result<std::string> packed_cache_path(const std::string& choice, const Checkpoint& checkpoint,
                                      WeightPrecision precision) {
  namespace fs = std::filesystem;
  if (choice.empty() || choice == "off") return std::string();
  // What needs other panels of the same model gets a file of its own.
  std::string suffix = precision == WeightPrecision::kFloat32 ? ".float32.packed" : ".packed";
  if (!checkpoint.rounding.empty()) suffix = "." + checkpoint.rounding + suffix;
  std::error_code error;
  const fs::path model = fs::absolute(checkpoint.path, error).lexically_normal();
  if (error) return make_error(ErrorKind::kIo, fmt::format("{}: {}", checkpoint.path, error.message()));
  if (choice == "auto") {
    return fs::is_directory(model, error) ? (model / ("model" + suffix)).string() : model.string() + suffix;
  }
  if (!fs::is_directory(choice, error)) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("--packed-cache is '{}': neither off nor auto nor a folder that is there", choice),
        "--packed-cache");
  }
  // Models of one name in different folders get different files.
  const std::string text = model.string();
  const uint64_t hash = hash_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, 0);
  return (fs::path(choice) / fmt::format("{}-{:08x}{}", checkpoint.name, hash & 0xffffffff, suffix)).string();
}

Result<void> pack_or_reuse(const Checkpoint& checkpoint, WeightPacker& packer, ComputePool& pool) {
  if (checkpoint.packed_cache.empty()) {
    PAGODA_TRY(packer.pack(pool));
    return {};
  }
  const PackedCache cache(checkpoint.packed_cache, {PAGODA_VERSION, packer.precision(), checkpoint.files,
                                                    checkpoint.quantization + checkpoint.rounding});
  if (auto panels = cache.load(packer, pool)) {
    packer.use(panels->specs, panels->memory);
    log::info("packed cache {}: used", cache.path());
    return {};
  } else if (panels.error().kind == ErrorKind::kNotFound) {
    log::info("packed cache {}: none yet, packing the model", cache.path());
  } else {
    log::warn("packed cache {}: not used: {}; packing the model again", cache.path(), panels.error().message);
  }
  const auto memory = PAGODA_TRY(packer.pack(pool));
  const auto start = std::chrono::steady_clock::now();
  if (const auto stored = cache.store(packer, memory.get(), pool); !stored) {
    log::warn("packed cache {}: not written: {}", cache.path(), stored.error().message);
    return {};
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  log::info("packed cache {}: {} MiB written in {:.1f} s", cache.path(), packer.bytes() >> 20,
            seconds.count());
  return {};
}

}  // namespace pagoda::model
