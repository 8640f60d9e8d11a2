#include "model/loader/safetensors_source.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "model/loader/file_error.h"
#include "model/loader/float_matrix.h"
#include "model/loader/json_file.h"

namespace pagoda::model {
namespace {

constexpr size_t kMaxShards = 4096;

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Multimodal folders keep the text model under a prefix; its tensors are asked for as those of a text model.
std::string text_model_name(const std::string& name) {
  constexpr std::string_view kNew = "model.language_model.", kOld = "language_model.";
  if (name.starts_with(kNew)) return "model." + name.substr(kNew.size());
  if (name.starts_with(kOld)) return name.substr(kOld.size());
  return name;
}

bool is_plain_file_name(const std::string& name) {
  return name.ends_with(".safetensors") && name.front() != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos && name.size() <= 255;
}

}  // namespace

Result<void> SafetensorsSource::add(const std::shared_ptr<const SafetensorsFile>& file,
                                    const SafetensorsTensor& tensor) {
  std::string name = text_model_name(tensor.name);
  if (!tensors_.emplace(name, Place{file, &tensor}).second) {
    return corrupt_file(file->path(), "tensor {} at offset {} appears twice", shown(tensor.name),
                        tensor.offset);
  }
  order_.push_back(std::move(name));
  return {};
}

Result<void> SafetensorsSource::add_sharded(const std::string& folder, const std::string& index_path) {
  const nlohmann::json index = PAGODA_TRY(read_json_object(index_path));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) return corrupt_file(index_path, "has no object 'weight_map'");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string())
      return corrupt_file(index_path, "'weight_map' gives {} no file name", shown(tensor));
    const auto& name = shard.get_ref<const std::string&>();
    if (name.empty() || !is_plain_file_name(name)) {
      return corrupt_file(index_path,
                          "'weight_map' puts {} into {}, which is no safetensors file in the same folder",
                          shown(tensor), shown(name));
    }
    shards[name].push_back(tensor);
    if (shards.size() > kMaxShards) return corrupt_file(index_path, "names more than {} files", kMaxShards);
  }
  for (const auto& [shard, names] : shards) {
    const std::string path = folder + "/" + shard;
    if (!exists(path)) {
      return make_error(ErrorKind::kIo, fmt::format("{}: the file {} is missing", index_path, path));
    }
    const auto file = std::make_shared<const SafetensorsFile>(PAGODA_TRY(SafetensorsFile::open(path)));
    files_.push_back({path, file->size(), file->modified_ns()});
    std::unordered_map<std::string_view, const SafetensorsTensor*> by_name;
    for (const SafetensorsTensor& tensor : file->tensors()) by_name.emplace(tensor.name, &tensor);
    for (const std::string& name : names) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) {
        return corrupt_file(path, "lacks tensor {}, which {} puts there", shown(name), index_path);
      }
      PAGODA_TRY(add(file, *found->second));
    }
  }
  return {};
}

Result<std::unique_ptr<SafetensorsSource>> SafetensorsSource::open(const std::string& folder) {
  std::unique_ptr<SafetensorsSource> source(new SafetensorsSource());
  source->folder_ = folder;
  const std::string single = folder + "/model.safetensors", index = single + ".index.json";
  if (exists(single)) {
    const auto file = std::make_shared<const SafetensorsFile>(PAGODA_TRY(SafetensorsFile::open(single)));
    source->files_.push_back({single, file->size(), file->modified_ns()});
    for (const SafetensorsTensor& tensor : file->tensors()) PAGODA_TRY(source->add(file, tensor));
  } else if (exists(index)) {
    PAGODA_TRY(source->add_sharded(folder, index));
  } else {
    const bool has_pickle =
        exists(folder + "/pytorch_model.bin") || exists(folder + "/pytorch_model.bin.index.json");
    return make_error(has_pickle ? ErrorKind::kUnsupportedModel : ErrorKind::kIo,
                      fmt::format("{}: neither model.safetensors nor model.safetensors.index.json is there{}",
                                  folder, has_pickle ? "; pytorch_model.bin can't be read" : ""));
  }
  return source;
}

const SafetensorsSource::Place* SafetensorsSource::place(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<TensorInfo> SafetensorsSource::list() const {
  std::vector<TensorInfo> infos;
  for (const std::string& name : order_) {
    const SafetensorsTensor& tensor = *tensors_.at(name).tensor;
    infos.push_back({name, tensor.shape, tensor.dtype, tensor.data.size()});
  }
  return infos;
}

Result<SafetensorsSource::Place> SafetensorsSource::find(const std::string& name,
                                                         const std::vector<int64_t>& expected) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return corrupt_file(folder_, "tensor {} is missing", shown(name));
  const Place& place = found->second;
  if (place.tensor->shape != expected) {
    return corrupt_file(place.file->path(), "tensor {} at offset {} has shape [{}] instead of [{}]",
                        shown(name), place.tensor->offset, number_list(place.tensor->shape),
                        number_list(expected));
  }
  if (!float_dtype(place.tensor->dtype)) {
    return unsupported_model(place.file->path(),
                             "tensor {} at offset {} has dtype {}; F32, F16 and BF16 can be run", shown(name),
                             place.tensor->offset, place.tensor->dtype);
  }
  return place;
}

Result<std::unique_ptr<MatrixReader>> SafetensorsSource::matrix(const std::string& name, int64_t rows,
                                                                int64_t depth) const {
  const Place place = PAGODA_TRY(find(name, {rows, depth}));
  MatrixPlace where{
      place.file,
      place.tensor->data,
      rows,
      depth,
      0,
      fmt::format("{}: tensor {} at offset {}", place.file->path(), shown(name), place.tensor->offset)};
  return std::unique_ptr<MatrixReader>(
      std::make_unique<FloatMatrix>(*float_dtype(place.tensor->dtype), std::move(where)));
}

Result<std::vector<float>> SafetensorsSource::vector(const std::string& name, int64_t size) const {
  const Place place = PAGODA_TRY(find(name, {size}));
  std::vector<float> values(static_cast<size_t>(size));
  read_floats(*float_dtype(place.tensor->dtype), place.tensor->data.data(), size, values.data());
  PAGODA_TRY(check_finite(values, place.file->path(), name, place.tensor->offset));
  return values;
}

}  // namespace pagoda::model
