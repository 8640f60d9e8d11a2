// The packed panels of a model in a file, so that the next start reads them instead of packing the model
// again.
//
// The file: 8 bytes of magic, the directory's size (u32) and a hash of it (u64), all little-endian; the
// directory, a JSON object; zeros up to data_offset; the panels of all weights as they lie in memory. The
// directory names everything that the panels depend on: this program's version, the layouts' version, the
// precision asked for, how the weights are quantised, the model files (name, size, time, hash of samples) and
// every weight's shape and scheme; a checksum covers the panels themselves. Instruction sets don't matter:
// the layouts are the same for all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/checkpoint.h"
#include "model/pack.h"

namespace pagoda::model {

struct CachedPanels {
  std::vector<PackedWeightSpec> specs;    // with their multipliers
  std::shared_ptr<const uint8_t> memory;  // WeightPacker::bytes() of it
};

// What load() asks for and store() writes.
struct PackedCacheKey {
  std::string version;  // of the program; tests name others
  WeightPrecision precision = WeightPrecision::kNative;
  std::vector<ModelFile> files;   // as they were when they were opened
  std::string quantization = {};  // of the checkpoint, or its rounding
};

class PackedCache {
 public:
  PackedCache(std::string path, PackedCacheKey key) : path_(std::move(path)), key_(std::move(key)) {}

  // The panels, read into memory with huge pages. kNotFound when there is no file; otherwise the message says
  // in one line what about the file, or about the model since, is another than expected. Every byte of
  // it is checked against a checksum; one that somebody made to deceive is not told apart.
  Result<CachedPanels> load(const WeightPacker& packer, ComputePool& pool) const;

  // Writes the packer's panels, which begin at `memory`, under a second name and then renames: readers see
  // the old file or the new one. kOverloaded while another process writes the same file.
  Result<void> store(const WeightPacker& packer, const uint8_t* memory, ComputePool& pool) const;

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  PackedCacheKey key_;
};

// Where the packed cache of a model lies. `choice` is "off" (an empty path), "auto" (beside the model) or a
// folder. kInvalidArgument when the folder is none.
Result<std::string> packed_cache_path(const std::string& choice, const Checkpoint& checkpoint,
                                      WeightPrecision precision);

// Packs the weights or, when checkpoint.packed_cache names a file that fits, takes them from there; writes
// the file when it does not fit. What becomes of the cache is logged and never an error.
Result<void> pack_or_reuse(const Checkpoint& checkpoint, WeightPacker& packer, ComputePool& pool);

}  // namespace pagoda::model
