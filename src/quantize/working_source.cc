#include "quantize/working_source.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda::quantize {
namespace {

class FloatReader : public model::MatrixReader {
 public:
  model::CodeScheme scheme() const final { return {}; }
  Range code_range(int64_t, int64_t) const final { return {}; }
  void read_codes(int64_t, int64_t, uint8_t*, float*, float*) const final {
    PAGODA_CHECK(false, "floats have no codes");
  }
};

class MemoryReader final : public FloatReader {
 public:
  MemoryReader(int64_t rows, int64_t depth, std::shared_ptr<const std::vector<float>> values)
      : rows_(rows), depth_(depth), values_(std::move(values)) {}
  int64_t rows() const override { return rows_; }
  int64_t depth() const override { return depth_; }
  void read_values(int64_t first, int64_t count, float* values) const override {
    std::copy_n(values_->data() + first * depth_, count * depth_, values);
  }

 private:
  int64_t rows_, depth_;
  std::shared_ptr<const std::vector<float>> values_;
};

class FileReader final : public FloatReader {
 public:
  explicit FileReader(std::unique_ptr<model::MatrixReader> reader) : reader_(std::move(reader)) {}
  int64_t rows() const override { return reader_->rows(); }
  int64_t depth() const override { return reader_->depth(); }
  std::string describe() const override { return reader_->describe(); }
  void read_values(int64_t first, int64_t count, float* values) const override {
    reader_->read_values(first, count, values);
  }
  void release_pages() const override { reader_->release_pages(); }

 private:
  std::unique_ptr<model::MatrixReader> reader_;
};

}  // namespace

void WorkingSource::set_matrix(const std::string& name, int64_t rows, int64_t depth,
                               std::vector<float> values) {
  matrices_[name] = {rows, depth, std::make_shared<const std::vector<float>>(std::move(values))};
}

void WorkingSource::set_vector(const std::string& name, std::vector<float> values) {
  vectors_[name] = std::move(values);
}

void WorkingSource::reset(const std::string& prefix) {
  std::erase_if(matrices_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
  std::erase_if(vectors_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

Result<std::unique_ptr<model::MatrixReader>> WorkingSource::matrix(const std::string& name, int64_t rows,
                                                                   int64_t depth) const {
  const auto found = matrices_.find(name);
  if (found == matrices_.end()) {
    auto reader = PAGODA_TRY(source_.matrix(name, rows, depth));
    return std::unique_ptr<model::MatrixReader>(std::make_unique<FileReader>(std::move(reader)));
  }
  PAGODA_CHECK(found->second.rows == rows && found->second.depth == depth, "{} has another shape", name);
  return std::unique_ptr<model::MatrixReader>(
      std::make_unique<MemoryReader>(rows, depth, found->second.values));
}

Result<std::vector<float>> WorkingSource::vector(const std::string& name, int64_t size) const {
  const auto found = vectors_.find(name);
  if (found != vectors_.end()) return found->second;
  return source_.vector(name, size);
}

}  // namespace pagoda::quantize
