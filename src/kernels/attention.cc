#include "kernels/attention.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/attention_internal.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();  // the maximum of no scores

// One kv head and a group of query tokens; row = token * heads + head. The tokens are consecutive ones of one
// sequence, or the single new tokens of several that share the partitions of the item.
struct Item {
  const AttentionSequence* sequence;  // whose blocks are read
  const int32_t* members = nullptr;   // the sequences of the tokens; null: all of `sequence`
  int64_t sequence_index = 0;
  int kv_head = 0;
  int64_t first_token = 0;  // within the sequence's new tokens
  int rows = 0;
  int64_t first_partition = 0, last_partition = 0;
};

// What all items of a call share.
struct Call {
  ConstRowsView q;
  std::span<const AttentionSequence> sequences;
  PagedKvView kv;
  const SharedPrefixes* shared;  // null: nothing is
  AttentionParams params;
  AttentionOutput out;
  const AttentionBody& body;
  int heads;            // q heads of one kv head
  int64_t token_group;  // query tokens of one item
  int64_t stride;       // floats of a value row

  int64_t groups(const AttentionSequence& s) const { return (s.num_tokens + token_group - 1) / token_group; }
  int64_t lowest_token(int64_t position) const {
    return params.window > 0 ? std::max<int64_t>(0, position - params.window + 1) : 0;
  }
};

int64_t count_items(const Call& call) {
  int64_t items = 0;
  for (const AttentionSequence& s : call.sequences) items += call.groups(s) * call.kv.num_kv_heads;
  return items;
}

Item item_at(const Call& call, int64_t index) {
  for (const AttentionSequence& s : call.sequences) {
    const int64_t count = call.groups(s) * call.kv.num_kv_heads;
    if (index >= count) {
      index -= count;
      continue;
    }
    Item item;
    item.sequence = &s;
    item.sequence_index = &s - call.sequences.data();
    item.kv_head = static_cast<int>(index % call.kv.num_kv_heads);
    item.first_token = index / call.kv.num_kv_heads * call.token_group;
    const int64_t tokens = std::min(call.token_group, s.num_tokens - item.first_token);
    item.rows = static_cast<int>(tokens) * call.heads;
    const int64_t first = s.first_position + item.first_token;
    item.first_partition = call.lowest_token(first) / kKvPartition;
    item.last_partition = (first + tokens - 1) / kKvPartition;
    if (call.shared != nullptr && call.shared->shared_partitions(item.sequence_index) > 0) {
      item.first_partition = call.shared->shared_partitions(item.sequence_index);
    }
    return item;
  }
  PAGODA_CHECK(false, "work item past the end");
}

// Members of a group that one shared item takes: a few tiles of rows.
int64_t members_per_item(const Call& call, const SharedPrefixes::Group& group) {
  constexpr int64_t kSharedRows = 32;
  const auto count = static_cast<int64_t>(group.members.size());
  const int64_t most = std::max<int64_t>(1, kSharedRows / call.heads);
  const int64_t items = (count + most - 1) / most;
  return (count + items - 1) / items;
}

int64_t shared_items_of(const Call& call, const SharedPrefixes::Group& group) {
  const int64_t each = members_per_item(call, group);
  return (static_cast<int64_t>(group.members.size()) + each - 1) / each * call.kv.num_kv_heads;
}

int64_t count_shared_items(const Call& call) {
  int64_t items = 0;
  for (const auto& group : call.shared->groups()) items += shared_items_of(call, group);
  return items;
}

Item shared_item_at(const Call& call, int64_t index) {
  for (const auto& group : call.shared->groups()) {
    const int64_t count = shared_items_of(call, group);
    if (index >= count) {
      index -= count;
      continue;
    }
    const int64_t each = members_per_item(call, group), first = index / call.kv.num_kv_heads * each;
    Item item;
    item.members = group.members.data() + first;
    item.sequence_index = item.members[0];
    item.sequence = &call.sequences[static_cast<size_t>(item.sequence_index)];
    item.kv_head = static_cast<int>(index % call.kv.num_kv_heads);
    item.rows =
        static_cast<int>(std::min(each, static_cast<int64_t>(group.members.size()) - first)) * call.heads;
    item.last_partition = group.partitions - 1;
    return item;
  }
  PAGODA_CHECK(false, "shared work item past the end");
}

const AttentionSequence& row_sequence(const Call& call, const Item& item, int row) {
  return item.members == nullptr ? *item.sequence
                                 : call.sequences[static_cast<size_t>(item.members[row / call.heads])];
}

// A row's token within its sequence's new tokens.
int64_t row_token(const Call& call, const Item& item, int row) {
  return item.members == nullptr ? item.first_token + row / call.heads : 0;
}

// The same as a row of the batch.
int64_t batch_token(const Call& call, const Item& item, int row) {
  return row_sequence(call, item, row).first_token + row_token(call, item, row);
}

// Offset of a row's head vector in units of floats from the start of its token's row.
int64_t row_head_offset(const Call& call, const Item& item, int row) {
  return (int64_t{item.kv_head} * call.heads + row % call.heads) * call.kv.head_dim;
}

// Bytes of a query value in the form that tiles over this cache take.
size_t query_bytes(DType cache) {
  return cache == DType::kF32 || cache == DType::kF16 ? sizeof(float) : sizeof(int16_t);
}

void load_queries(const Call& call, const Item& item, const AttentionArea& area) {
  constexpr float kLargestCode = 32767;
  const int64_t dim = call.kv.head_dim;
  const auto row_bytes = static_cast<int64_t>(query_bytes(call.kv.dtype)) * dim;
  const ActivationBody& body = pick(scalar::activation_body, avx2::activation_body, avx512::activation_body);
  for (int row = 0; row < item.rows; ++row) {
    const float* const from = call.q.row(batch_token(call, item, row)) + row_head_offset(call, item, row);
    uint8_t* const to = area.q + row * row_bytes;
    switch (call.kv.dtype) {
      case DType::kF32:
      case DType::kF16:
        std::memcpy(to, from, static_cast<size_t>(row_bytes));
        break;
      case DType::kBF16:
        body.round_bf16(from, dim, reinterpret_cast<uint16_t*>(to));
        break;
      case DType::kI8:
        area.q_scale[row] = call.body.quantize(from, dim, kLargestCode, reinterpret_cast<int16_t*>(to));
        break;
    }
  }
}

using TileFunction = void (*)(AttentionTile&);

TileFunction tile_function(const AttentionBody& body, DType cache) {
  switch (cache) {
    case DType::kF32:
      return body.f32;
    case DType::kF16:
      return body.f16;
    case DType::kBF16:
      return body.bf16;
    case DType::kI8:
      break;
  }
  return body.int8;
}

// Sets ranges and block pointers of rows [first_row, first_row + tile.rows) in `partition`; false if no row
// has a token.
bool place_tile(const Call& call, const Item& item, int64_t partition, int first_row, AttentionTile& tile) {
  const int64_t origin = partition * kKvPartition;
  int lowest = kKvPartition, highest = 0;
  for (int r = 0; r < tile.rows; ++r) {
    const int64_t position =
        row_sequence(call, item, first_row + r).first_position + row_token(call, item, first_row + r);
    const int64_t begin = std::clamp<int64_t>(call.lowest_token(position) - origin, 0, kKvPartition);
    const int64_t end = std::clamp<int64_t>(position + 1 - origin, 0, kKvPartition);
    tile.begin[r] = begin < end ? static_cast<int>(begin) : 0;
    tile.end[r] = begin < end ? static_cast<int>(end) : 0;
    if (begin >= end) continue;
    lowest = std::min(lowest, tile.begin[r]);
    highest = std::max(highest, tile.end[r]);
  }
  if (lowest >= highest) return false;
  const auto first_block = static_cast<size_t>(origin / kKvBlockTokens);
  for (int b = lowest / kKvBlockTokens; b * kKvBlockTokens < highest; ++b) {
    const BlockId block = item.sequence->block_table[first_block + static_cast<size_t>(b)];
    tile.k_blocks[b] = call.kv.k(block, item.kv_head);
    tile.v_blocks[b] = call.kv.v(block, item.kv_head);
  }
  return true;
}

// Tells the tile what to prefetch: the blocks of a sequence lie anywhere, so the hardware does not foresee
// them. K and V of the next partition arrive while this one is computed; the first partition of a run is
// fetched on the fly itself.
void plan_prefetch(const Call& call, const Item& item, int64_t partition, bool is_first, bool has_next,
                   AttentionTile& tile) {
  constexpr int64_t kBlocks = kKvPartition / kKvBlockTokens;
  constexpr int64_t kAhead = 3;  // blocks; 12 KB of K at head_dim 128
  const std::span<const BlockId> table = item.sequence->block_table;
  const int64_t num_tokens = item.sequence->first_position + item.sequence->num_tokens;
  const int64_t num_blocks = (num_tokens + kKvBlockTokens - 1) / kKvBlockTokens;
  const auto area = [&](int64_t block, bool wanted, bool is_v) -> const uint8_t* {
    if (!wanted || block >= num_blocks) return nullptr;
    const BlockId id = table[static_cast<size_t>(block)];
    return is_v ? call.kv.v(id, item.kv_head) : call.kv.k(id, item.kv_head);
  };
  for (int64_t b = 0; b < kBlocks; ++b) {
    const int64_t block = partition * kBlocks + b, next = block + kBlocks;
    tile.beside_scores[0][b] = is_first ? area(block + kAhead, true, false) : area(next, has_next, false);
    tile.beside_scores[1][b] = area(block, is_first, true);
    tile.beside_values[0][b] = area(next, has_next, true);
    tile.beside_values[1][b] = area(next, is_first && has_next, false);
  }
}

// Consecutive partitions of an item.
struct PartitionRun {
  int64_t first, last;
};

// Calls use(partition, row, values, max, sum) for every row of the item that has tokens in a partition of the
// run.
template <class Use>
void for_partitions(const Call& call, const Item& item, PartitionRun run, const AttentionArea& area,
                    const Use& use) {
  AttentionTile tile;
  tile.head_dim = call.kv.head_dim;
  tile.scale = call.params.scale;
  tile.softcap = call.params.softcap;
  tile.scores = area.scores;
  tile.weights = area.weights;
  tile.values = area.values;
  tile.value_stride = call.stride;
  const size_t q_bytes = static_cast<size_t>(call.kv.head_dim) * query_bytes(call.kv.dtype);
  const TileFunction attend = tile_function(call.body, call.kv.dtype);
  for (int64_t partition = run.first; partition <= run.last; ++partition) {
    plan_prefetch(call, item, partition, partition == run.first, partition < run.last, tile);
    for (int row = 0; row < item.rows; row += kAttentionRows) {
      tile.rows = std::min(kAttentionRows, item.rows - row);
      tile.q = area.q + static_cast<size_t>(row) * q_bytes;
      if (!place_tile(call, item, partition, row, tile)) continue;
      if (call.kv.dtype == DType::kI8) std::copy_n(area.q_scale + row, tile.rows, tile.q_scale);
      attend(tile);
      for (int r = 0; r < tile.rows; ++r) {
        if (tile.begin[r] == tile.end[r]) continue;
        use(partition, row + r, tile.values + r * tile.value_stride, tile.max[r], tile.sum[r]);
      }
    }
  }
}

// Adds a partition's result to a row's running softmax. Both the split and the unsplit path merge here, in
// ascending order of partitions, so they agree bit for bit.
void merge_row(const Call& call, const AttentionArea& area, int row, const float* values, float max,
               float sum) {
  float* const acc = area.acc + row * call.stride;
  float& row_max = area.max[row];
  float& row_sum = area.sum[row];
  if (row_max == kNone) {
    std::memcpy(acc, values, static_cast<size_t>(call.stride) * sizeof(float));
    row_max = max;
    row_sum = sum;
    return;
  }
  const float new_max = std::max(row_max, max);
  const float keep = std::exp(row_max - new_max), add = std::exp(max - new_max);
  call.body.merge(acc, keep, values, add, call.stride);
  row_sum = row_sum * keep + sum * add;
  row_max = new_max;
}

void store_rows(const Call& call, const Item& item, const AttentionArea& area) {
  ActivationBuffer* const converted = call.out.converted;
  for (int row = 0; row < item.rows; ++row) {
    const int64_t token = batch_token(call, item, row), column = row_head_offset(call, item, row);
    float* const acc = area.acc + row * call.stride;
    // Heads whose rows need no padding lie side by side: all of a token's are converted at once.
    float* const to = converted != nullptr ? acc : call.out.rows.row(token) + column;
    call.body.scale(acc, 1.0f / area.sum[row], call.kv.head_dim, to);
    if (converted != nullptr && (row + 1) % call.heads == 0) {
      const int64_t before = call.heads - 1;
      converted->write_columns(token, column - before * call.kv.head_dim, acc - before * call.stride,
                               call.heads * call.stride);
    }
  }
}

float* shared_state(const Call& call, const Item& item, int row) {
  const int64_t sequence = item.members == nullptr ? item.sequence_index : item.members[row / call.heads];
  return call.shared->state(sequence, item.kv_head * call.heads + row % call.heads);
}

// Rows start empty, or from what their group computed of the partitions before.
void start_rows(const Call& call, const Item& item, const AttentionArea& area) {
  std::fill_n(area.max, item.rows, kNone);
  const bool resumes = item.members == nullptr && call.shared != nullptr &&
                       call.shared->shared_partitions(item.sequence_index) > 0;
  if (!resumes) return;
  for (int row = 0; row < item.rows; ++row) {
    const float* const state = shared_state(call, item, row);
    std::memcpy(area.acc + row * call.stride, state, static_cast<size_t>(call.stride) * sizeof(float));
    area.max[row] = state[call.stride];
    area.sum[row] = state[call.stride + 1];
  }
}

void keep_rows(const Call& call, const Item& item, const AttentionArea& area) {
  for (int row = 0; row < item.rows; ++row) {
    float* const state = shared_state(call, item, row);
    std::memcpy(state, area.acc + row * call.stride, static_cast<size_t>(call.stride) * sizeof(float));
    state[call.stride] = area.max[row];
    state[call.stride + 1] = area.sum[row];
  }
}

void run_item(const Call& call, const Item& item, const AttentionArea& area) {
  load_queries(call, item, area);
  start_rows(call, item, area);
  for_partitions(call, item, {item.first_partition, item.last_partition}, area,
                 [&](int64_t, int row, const float* values, float max, float sum) {
                   merge_row(call, area, row, values, max, sum);
                 });
  item.members == nullptr ? store_rows(call, item, area) : keep_rows(call, item, area);
}

// Where a split call keeps partial results: records of a value row, max and sum.
struct Partials {
  float* base;
  int64_t partitions;  // most partitions of any item
  int64_t rows;        // most rows of any item
  int64_t record;

  float* at(int64_t item, int64_t partition, int64_t row) const {
    return base + ((item * partitions + partition) * rows + row) * record;
  }
};

Partials partials_of(const Call& call, int64_t items, AttentionScratch& scratch) {
  Partials p{scratch.partials(), 0, 0, call.stride + kStateFloats};
  for (int64_t index = 0; index < items; ++index) {
    const Item item = item_at(call, index);
    p.partitions = std::max(p.partitions, item.last_partition - item.first_partition + 1);
    p.rows = std::max<int64_t>(p.rows, item.rows);
  }
  return p;
}

void run_split(const Call& call, int64_t items, const Partials& partials, AttentionScratch& scratch,
               ComputePool& pool) {
  const auto area_of = [&](int worker) {
    AttentionArea area;
    lay_out_area(scratch.worker_area(worker), scratch.max_rows(), scratch.head_dim(), area);
    return area;
  };
  // Runs of several partitions, so that one can be prefetched while another is computed; about four per
  // thread.
  const int64_t wanted = (4 * pool.num_threads() + items - 1) / items;
  const int64_t length = std::max<int64_t>(1, (partials.partitions + wanted - 1) / wanted);
  const int64_t runs = (partials.partitions + length - 1) / length;
  pool.run(static_cast<int>(items * runs), [&](int chunk, int worker) {
    const int64_t index = chunk / runs, begin = chunk % runs * length;
    const int64_t end = std::min(begin + length, partials.partitions);
    const Item item = item_at(call, index);
    for (int64_t part = begin; part < end; ++part) {
      for (int row = 0; row < item.rows; ++row) partials.at(index, part, row)[call.stride] = kNone;
    }
    const PartitionRun run{item.first_partition + begin,
                           std::min(item.first_partition + end - 1, item.last_partition)};
    if (run.first > run.last) return;
    const AttentionArea area = area_of(worker);
    load_queries(call, item, area);
    for_partitions(call, item, run, area,
                   [&](int64_t partition, int row, const float* values, float max, float sum) {
                     float* const record = partials.at(index, partition - item.first_partition, row);
                     std::memcpy(record, values, static_cast<size_t>(call.stride) * sizeof(float));
                     record[call.stride] = max;
                     record[call.stride + 1] = sum;
                   });
  });
  pool.run(static_cast<int>(items), [&](int chunk, int worker) {
    const Item item = item_at(call, chunk);
    const AttentionArea area = area_of(worker);
    std::fill_n(area.max, item.rows, kNone);
    for (int64_t part = 0; part < partials.partitions; ++part) {
      for (int row = 0; row < item.rows; ++row) {
        const float* const record = partials.at(chunk, part, row);
        if (record[call.stride] != kNone) {
          merge_row(call, area, row, record, record[call.stride], record[call.stride + 1]);
        }
      }
    }
    store_rows(call, item, area);
  });
}

}  // namespace

AttentionScratch::AttentionScratch(int64_t max_tokens, int64_t max_context, int num_heads, int head_dim,
                                   int num_threads)
    : num_threads_(num_threads), max_rows_(std::max(kItemRows, num_heads)), head_dim_(head_dim) {
  AttentionArea area;
  worker_bytes_ = lay_out_area(nullptr, max_rows_, head_dim, area);
  buffer_ = AlignedBuffer(worker_bytes_ * static_cast<size_t>(num_threads));
  if (num_threads == 1) return;
  // A call is split only while it has fewer items than two per thread; rows of four tokens cover that up to 8
  // threads and a draft of three.
  const int64_t rows = std::min<int64_t>(max_tokens, 4) * num_heads;
  const int64_t partitions = (max_context + kKvPartition - 1) / kKvPartition;
  partials_ = AlignedBuffer(static_cast<size_t>(rows * partitions * (value_stride(head_dim) + kStateFloats)) *
                            sizeof(float));
}

void attention(const AttentionInput& input, const AttentionParams& params, const AttentionOutput& out,
               AttentionScratch& scratch, ComputePool& pool) noexcept {
  const PagedKvView& kv = input.kv;
  PAGODA_CHECK(params.num_heads % kv.num_kv_heads == 0, "{} heads over {} kv heads", params.num_heads,
               kv.num_kv_heads);
  const int heads = params.num_heads / kv.num_kv_heads;
  PAGODA_CHECK(heads <= scratch.max_rows() && kv.head_dim <= scratch.head_dim() && kv.head_dim % 2 == 0 &&
                   pool.num_threads() <= scratch.num_threads(),
               "scratch for {} rows, head_dim {}, {} threads", scratch.max_rows(), scratch.head_dim(),
               scratch.num_threads());
  const AttentionBody& body = pick(scalar::attention_body, avx2::attention_body, avx512::attention_body);
  PAGODA_CHECK(out.converted == nullptr ||
                   (kv.head_dim % kActivationGroup == 0 && out.converted->view().order == nullptr),
               "head_dim {} to convert", kv.head_dim);
  const bool windowed = params.window > 0;
  Call call{input.q,
            input.sequences,
            kv,
            windowed || input.shared == nullptr || input.shared->groups().empty() ? nullptr : input.shared,
            params,
            out,
            body,
            heads,
            std::max(1, kItemRows / heads),
            value_stride(kv.head_dim)};
  for (const AttentionSequence& s : input.sequences) {
    PAGODA_CHECK(
        static_cast<int64_t>(s.block_table.size()) * kKvBlockTokens >= s.first_position + s.num_tokens,
        "{} blocks for {} + {} tokens", s.block_table.size(), s.first_position, s.num_tokens);
  }
  const int64_t items = count_items(call);
  if (items < 2 * pool.num_threads() && pool.num_threads() > 1) {
    call.shared = nullptr;  // too few sequences for sharing to matter; they are cut along the cache instead
    const Partials partials = partials_of(call, items, scratch);
    const int64_t floats = items * partials.partitions * partials.rows * partials.record;
    if (partials.partitions > 1 && floats <= scratch.partial_floats()) {
      return run_split(call, items, partials, scratch, pool);
    }
  }
  const auto run = [&](const Item& item, int worker) {
    AttentionArea area;
    lay_out_area(scratch.worker_area(worker), scratch.max_rows(), scratch.head_dim(), area);
    run_item(call, item, area);
  };
  if (call.shared != nullptr) {
    pool.run(static_cast<int>(count_shared_items(call)),
             [&](int chunk, int worker) { run(shared_item_at(call, chunk), worker); });
  }
  // Last items first: in a prompt they have the longest contexts, and short ones should end the call.
  pool.run(static_cast<int>(items),
           [&](int chunk, int worker) { run(item_at(call, items - 1 - chunk), worker); });
}

}  // namespace pagoda::kernels
