#include "model/loader/view_source.h"

#include <utility>

#include "model/loader/file_error.h"
#include "model/loader/matrix_views.h"

namespace pagoda::model {
namespace {

TensorInfo view_info(const TensorInfo& whole, const TensorView& view) {
  TensorInfo info = whole;
  info.name = view.name;
  if (view.transposed && info.shape.size() == 2) std::swap(info.shape[0], info.shape[1]);
  if (view.total > 0 && !info.shape.empty()) {
    info.shape[0] = view.rows;
    info.bytes = whole.bytes / static_cast<uint64_t>(view.total) * static_cast<uint64_t>(view.rows);
  }
  return info;
}

}  // namespace

ViewSource::ViewSource(std::unique_ptr<TensorSource> source, std::vector<TensorView> views)
    : source_(std::move(source)), views_(std::move(views)) {
  for (const TensorView& view : views_) {
    by_name_.emplace(view.name, &view);
    by_stored_[view.stored].push_back(&view);
  }
}

std::vector<TensorInfo> ViewSource::list() const {
  std::vector<TensorInfo> infos;
  for (TensorInfo& info : source_->list()) {
    const auto views = by_stored_.find(info.name);
    if (views == by_stored_.end()) {
      infos.push_back(std::move(info));
    } else {
      for (const TensorView* const view : views->second) infos.push_back(view_info(info, *view));
    }
  }
  return infos;
}

bool ViewSource::contains(const std::string& name) const {
  const auto view = by_name_.find(name);
  if (view != by_name_.end()) return source_->contains(view->second->stored);
  return !by_stored_.contains(name) && source_->contains(name);
}

Result<std::unique_ptr<MatrixReader>> ViewSource::matrix(const std::string& name, int64_t rows,
                                                         int64_t depth) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return source_->matrix(name, rows, depth);
  const TensorView& view = *found->second;
  const int64_t total = view.total > 0 ? view.total : rows;
  std::shared_ptr<const MatrixReader> reader = view.transposed
                                                   ? PAGODA_TRY(source_->matrix(view.stored, depth, total))
                                                   : PAGODA_TRY(source_->matrix(view.stored, total, depth));
  if (view.total > 0 && view.rows != rows) {
    return corrupt_file(reader->describe(), "{} has {} rows there instead of {}", shown(name), view.rows,
                        rows);
  }
  if (view.transposed) reader = std::make_shared<Transposed>(std::move(reader));
  return std::unique_ptr<MatrixReader>(std::make_unique<RowSlice>(std::move(reader), view.first, rows));
}

Result<std::vector<float>> ViewSource::vector(const std::string& name, int64_t size) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return source_->vector(name, size);
  const TensorView& view = *found->second;
  if (view.total == 0) return source_->vector(view.stored, size);
  if (view.rows != size) {
    return corrupt_file(view.stored, "{} has {} elements there instead of {}", shown(name), view.rows, size);
  }
  auto whole = PAGODA_TRY(source_->vector(view.stored, view.total));
  const auto first = whole.begin() + view.first;
  return std::vector<float>(first, first + view.rows);
}

}  // namespace pagoda::model
