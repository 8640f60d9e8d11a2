#include "quantize/gguf/gguf_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mmap_file.h"
#include "model/loader/float_matrix.h"
#include "model/loader/gguf_config.h"
#include "model/loader/gguf_source.h"
#include "quantize/gguf/architecture_keys.h"
#include "quantize/gguf/metadata.h"
#include "quantize/gguf/tensors.h"
#include "quantize/gguf/vocabulary.h"
#include "quantize/writer/output_file.h"

namespace pagoda::quantize {
namespace {

constexpr uint64_t kAlignment = 32;  // what readers assume without general.alignment

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// llama.cpp's numbers for what most of a file's matrices are (LLAMA_FTYPE_MOSTLY_...).
uint32_t file_type(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return 0;
    case GgmlType::kF16:
      return 1;
    case GgmlType::kQ4_0:
      return 2;
    case GgmlType::kQ8_0:
      return 7;
    default:
      return 14;  // Q4_K_S: all matrices of the layers in one type
  }
}

// Keys that say how the source lies in its files.
bool is_of_the_file(std::string_view key) {
  return key == "general.alignment" || key == "general.file_type" || key == "general.quantization_version" ||
         key.starts_with("split.") || key.starts_with("quantize.");
}

void write_type_keys(GgmlType type, GgufMetadata& metadata) {
  metadata.set_u32("general.file_type", file_type(type));
  metadata.set_u32("general.quantization_version", 2);
}

GgufMetadata copied_keys(const model::GgufFile& file) {
  GgufMetadata metadata;
  for (const std::string_view key : file.keys()) {
    if (!is_of_the_file(key)) metadata.copy(key, *file.find(key));
  }
  return metadata;
}

std::string header_of(const GgufMetadata& metadata, const std::vector<GgufTensorOut>& tensors) {
  std::string out = "GGUF";
  append_number(out, uint32_t{3});
  append_number(out, static_cast<uint64_t>(tensors.size()));
  append_number(out, static_cast<uint64_t>(metadata.size()));
  out += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufTensorOut& tensor : tensors) {
    append_text(out, tensor.name);
    append_number(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const int64_t dim : tensor.dims) append_number(out, static_cast<uint64_t>(dim));
    append_number(out, tensor.type);
    append_number(out, offset);
    offset += aligned(tensor.bytes);
  }
  out.resize(aligned(out.size()), '\0');
  return out;
}

// Rows [first, first + count) of one matrix, and where they go in the file's order.
struct Piece {
  const model::MatrixReader* reader = nullptr;
  int64_t first = 0, count = 0;
};

class TensorWriter {
 public:
  TensorWriter(const GgufTensorOut& tensor, OutputFile& file, ComputePool& pool)
      : tensor_(tensor), file_(file), pool_(pool), type_(static_cast<GgmlType>(tensor.type)) {}

  // `keep_on` is asked now and then.
  template <class KeepOn>
  Result<void> write(KeepOn keep_on) {
    if (!tensor_.values.empty()) {
      PAGODA_TRY(
          file_.append(std::span(reinterpret_cast<const uint8_t*>(tensor_.values.data()), tensor_.bytes)));
    } else if (tensor_.parts.empty()) {
      PAGODA_TRY(file_.append(tensor_.raw));
      MmapFile::release(tensor_.raw);
    } else {
      PAGODA_TRY(write_rows(keep_on));
    }
    const std::string padding(aligned(tensor_.bytes) - tensor_.bytes, '\0');
    return file_.append(std::string_view(padding));
  }

 private:
  template <class KeepOn>
  Result<void> write_rows(KeepOn keep_on) {
    const std::vector<Piece> pieces = cut();
    const uint64_t bytes_per_row = row_bytes(type_, depth());
    constexpr uint64_t kBytesAtOnce = uint64_t{16} << 20;
    std::vector<uint8_t> out;
    for (size_t first = 0; first < pieces.size();) {
      std::vector<uint64_t> offsets;
      uint64_t size = 0;
      size_t end = first;
      for (; end < pieces.size() && (end == first || size < kBytesAtOnce); ++end) {
        offsets.push_back(size);
        size += bytes_per_row * static_cast<uint64_t>(pieces[end].count);
      }
      out.resize(size);
      std::atomic<bool> good{true};
      pool_.run(static_cast<int>(end - first), [&](int chunk, int) {
        const auto index = static_cast<size_t>(chunk);
        if (!encode(pieces[first + index], out.data() + offsets[index])) good = false;
      });
      if (!good) return bad_value();
      PAGODA_TRY(file_.append(out));
      PAGODA_TRY(keep_on());
      first = end;
    }
    for (const auto& part : tensor_.parts) part->release_pages();
    return {};
  }

  int64_t depth() const { return tensor_.parts.front()->depth(); }

  // A panel of rows, for which the quantised formats' readers are made, or a head.
  std::vector<Piece> cut() const {
    constexpr int64_t kPanel = 32;
    const int64_t step = tensor_.interleaved_head_dim != 0 ? tensor_.interleaved_head_dim : kPanel;
    std::vector<Piece> pieces;
    for (const auto& part : tensor_.parts) {
      for (int64_t first = 0; first < part->rows(); first += step) {
        pieces.push_back({part.get(), first, std::min(step, part->rows() - first)});
      }
    }
    return pieces;
  }

  // False when a value can't be stored.
  bool encode(const Piece& piece, uint8_t* out) const {
    const int64_t columns = depth(), head_dim = tensor_.interleaved_head_dim;
    std::vector<float> values(static_cast<size_t>(piece.count * columns));
    piece.reader->read_values(piece.first, piece.count, values.data());
    const float largest = type_ == GgmlType::kF32 ? std::numeric_limits<float>::max() : kLargestValue;
    for (const float value : values) {
      if (!(std::fabs(value) <= largest)) return false;
    }
    const uint64_t bytes = row_bytes(type_, columns);
    for (int64_t row = 0; row < piece.count; ++row) {
      const int64_t stored = model::stored_row(row, head_dim);
      encode_row(type_, values.data() + row * columns, columns, out + static_cast<uint64_t>(stored) * bytes);
    }
    return true;
  }

  Error bad_value() const {
    return make_error(ErrorKind::kCorruptFile,
                      fmt::format("{} has a value that {} can't hold", tensor_.parts.front()->describe(),
                                  ggml_type_name(tensor_.type)));
  }

  const GgufTensorOut& tensor_;
  OutputFile& file_;
  ComputePool& pool_;
  GgmlType type_;
};

struct Contents {
  GgufMetadata metadata;
  GgufTensorPlan plan;
};

// llama.cpp lets layers of these families see everything.
void warn_of_windows(const model::ModelConfig& config) {
  using model::Architecture;
  const Architecture family = config.architecture;
  const bool known = family == Architecture::kGemma2 || family == Architecture::kGemma3;
  const int64_t window = config.layer_window.empty()
                             ? 0
                             : *std::max_element(config.layer_window.begin(), config.layer_window.end());
  if (known || window == 0 || window >= config.max_positions) return;
  log::warn("pagoda reads the sliding window of {} tokens from the file; llama.cpp ignores it for {} models",
            window, model::architecture_name(family));
}

Result<Contents> contents_of(const GgufJob& job) {
  std::error_code ignored;
  Contents contents;
  if (std::filesystem::is_directory(job.checkpoint.path, ignored)) {
    PAGODA_TRY(check_gguf_config(job.checkpoint));
    warn_of_windows(job.checkpoint.config);
    write_architecture_keys(job.checkpoint, contents.metadata);
    PAGODA_TRY(write_vocabulary(job.checkpoint, contents.metadata));
    contents.plan = PAGODA_TRY(plan_folder(job.checkpoint, job.type));
  } else {
    auto files = PAGODA_TRY(model::open_gguf_set(job.checkpoint.path));
    const auto architecture = PAGODA_TRY(model::gguf_architecture(*files[0]));
    contents.metadata = copied_keys(*files[0]);
    contents.plan = PAGODA_TRY(plan_gguf(std::move(files), architecture, job.type));
  }
  write_type_keys(job.type, contents.metadata);
  return contents;
}

}  // namespace

Result<void> write_gguf(const GgufJob& job, ComputePool& pool, const Hooks& hooks) {
  std::error_code ignored;
  if (std::filesystem::exists(job.out, ignored)) {
    return make_error(ErrorKind::kInvalidArgument, job.out + " exists already; name a new file");
  }
  const Contents contents = PAGODA_TRY(contents_of(job));
  const GgufTensorPlan& plan = contents.plan;
  if (plan.narrow > 0) {
    log::info("{} of {} tensors have rows that are no whole blocks of {}: they are {}", plan.narrow,
              plan.tensors.size(), block_elements(job.type),
              ggml_type_name(static_cast<uint32_t>(plan.narrow_type)));
  }
  OutputFile file = PAGODA_TRY(OutputFile::create(job.out));
  PAGODA_TRY(file.append(std::string_view(header_of(contents.metadata, plan.tensors))));
  Hooks::Progress progress;
  progress.total = static_cast<int64_t>(plan.tensors.size());
  const auto keep_on = [&]() -> Result<void> {
    if (hooks.progress) hooks.progress(progress);
    if (!hooks.cancelled || !hooks.cancelled()) return {};
    return make_error(ErrorKind::kCancelled, "interrupted");
  };
  for (const GgufTensorOut& tensor : plan.tensors) {
    PAGODA_TRY(TensorWriter(tensor, file, pool).write(keep_on));
    ++progress.done;
    PAGODA_TRY(keep_on());
  }
  PAGODA_TRY(file.commit());
  const std::string folder = std::filesystem::path(job.out).parent_path().string();
  return sync_folder(folder.empty() ? "." : folder);
}

}  // namespace pagoda::quantize
