// The benchmarked operations: the only place of the benchmarks that calls kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace pagoda::bench {

enum class Unit : uint8_t { kNone, kInt8, kBF16, kF32 };  // whose peak the operations are held against
enum class Source : uint8_t { kMemory, kL2 };             // where the bytes come from

// One operation at one shape. The data behind `call` is shared among the ops of one set.
struct Op {
  std::string group;      // "matmul", "attention", ...
  std::string name;       // unique and stable: what `compare` matches by
  double operations = 0;  // as the result needs them: 2 M N K
  double executed = 0;    // as the unit counts them: two int8 products for 16 bits
  Unit unit = Unit::kNone;
  double bytes = 0;  // read and written, at the least
  Source source = Source::kMemory;
  std::function<void(int i, ComputePool& pool)> call;  // i = 0, 1, ...: walks through weights, layers
};

// The shape of a model's layer, as far as kernels see it.
struct ModelShape {
  std::string name;
  int64_t hidden, intermediate, vocab;
  int heads, kv_heads, head_dim;
};

const std::vector<ModelShape>& model_shapes();

struct OpChoice {
  bool quick = false;   // fewer rows and contexts
  int max_threads = 1;  // the largest pool that will run the ops
};

// Lists of ops that share data. Each call of a maker allocates the data of its list, so that the caller can
// free one list before it makes the next.
using OpMaker = std::function<std::vector<Op>()>;
std::vector<OpMaker> op_makers(const ModelShape& shape, const OpChoice& choice);

}  // namespace pagoda::bench
