#include "quantize/quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/loader/model_check.h"
#include "quantize/writer/code_formats.h"
#include "quantize/writer/float_tensor.h"
#include "quantize/writer/hf_config.h"
#include "quantize/writer/hf_folder_writer.h"

namespace pagoda::quantize {
namespace {

void append(std::vector<OutTensor>& all, std::vector<OutTensor> some) {
  for (OutTensor& tensor : some) all.push_back(std::move(tensor));
}

class Run {
 public:
  Run(const model::Checkpoint& checkpoint, const Options& options, ComputePool& pool, const Hooks& hooks)
      : checkpoint_(checkpoint),
        options_(options),
        pool_(pool),
        hooks_(hooks),
        dtype_(float_dtype_of(checkpoint)) {}

  Result<void> write_parts(HfFolderWriter& writer);
  const std::string& dtype() const { return dtype_; }

 private:
  Result<void> step();
  Result<std::vector<float>> weights(const Linear& linear) const;
  Result<std::vector<OutTensor>> round(const Linear& linear);
  Result<std::vector<OutTensor>> layer(int index);
  // Tensors of layer `index`, or of none (-1), that stay floats.
  Result<std::vector<OutTensor>> floats(int index) const;

  const model::Checkpoint& checkpoint_;
  const Options& options_;
  ComputePool& pool_;
  const Hooks& hooks_;
  std::string dtype_;
  Hooks::Progress progress_;
};

Result<void> Run::step() {
  ++progress_.done;
  if (hooks_.progress) hooks_.progress(progress_);
  if (!hooks_.cancelled || !hooks_.cancelled()) return {};
  return make_error(ErrorKind::kCancelled, "interrupted");
}

Result<std::vector<float>> Run::weights(const Linear& linear) const {
  const auto reader =
      PAGODA_TRY(checkpoint_.tensors->matrix(linear.stem + ".weight", linear.rows, linear.depth));
  std::vector<float> values(static_cast<size_t>(linear.rows * linear.depth));
  constexpr int64_t kRowsAtOnce = 32;  // a panel, for which the quantised formats' readers are made
  pool_.run(static_cast<int>((linear.rows + kRowsAtOnce - 1) / kRowsAtOnce), [&](int chunk, int) {
    const int64_t first = chunk * kRowsAtOnce;
    reader->read_values(first, std::min(kRowsAtOnce, linear.rows - first),
                        values.data() + first * linear.depth);
  });
  reader->release_pages();
  for (const float value : values) {
    if (std::isfinite(value)) continue;
    return make_error(ErrorKind::kCorruptFile, reader->describe() + " has a value that is no finite number");
  }
  return values;
}

Result<std::vector<OutTensor>> Run::round(const Linear& linear) {
  const auto values = PAGODA_TRY(weights(linear));
  if (options_.method == Method::kInt8) {
    return channel_tensors(linear.stem,
                           round_channels(values.data(), linear.rows, linear.depth, dtype_, pool_));
  }
  const CodedShape shape{linear.rows, linear.depth, options_.columns(linear.depth), options_.grid()};
  return gptq_tensors(linear.stem, round_to_nearest(values.data(), shape, pool_));
}

Result<std::vector<OutTensor>> Run::layer(int index) {
  std::vector<OutTensor> tensors;
  for (const Linear& linear : layer_linears(checkpoint_.config, index)) {
    append(tensors, PAGODA_TRY(round(linear)));
    PAGODA_TRY(step());
  }
  return tensors;
}

Result<std::vector<OutTensor>> Run::floats(int index) const {
  std::unordered_set<std::string> coded;
  if (index >= 0) {
    for (const Linear& linear : layer_linears(checkpoint_.config, index))
      coded.insert(linear.stem + ".weight");
  }
  const std::string layers = "model.layers.", own = fmt::format("{}{}.", layers, index);
  std::vector<OutTensor> tensors;
  for (const model::RequiredTensor& tensor : model::required_tensors(checkpoint_.config)) {
    const bool wanted = index >= 0 ? tensor.name.starts_with(own) : !tensor.name.starts_with(layers);
    if (!wanted || coded.contains(tensor.name)) continue;
    tensors.push_back(PAGODA_TRY(float_tensor(checkpoint_, tensor, dtype_)));
  }
  return tensors;
}

Result<void> Run::write_parts(HfFolderWriter& writer) {
  const int num_layers = checkpoint_.config.num_layers;
  for (int index = 0; index < num_layers; ++index) {
    const auto count = static_cast<int64_t>(layer_linears(checkpoint_.config, index).size());
    progress_.total += count;
    if (!writer.has_part(index)) continue;
    progress_.done += count;
    progress_.skipped += count;
  }
  for (int index = 0; index < num_layers; ++index) {
    if (writer.has_part(index)) continue;
    auto tensors = PAGODA_TRY(layer(index));
    append(tensors, PAGODA_TRY(floats(index)));
    PAGODA_TRY(writer.write_part(index, std::move(tensors)));
  }
  if (writer.has_part(num_layers)) return {};
  return writer.write_part(num_layers, PAGODA_TRY(floats(-1)));
}

}  // namespace

Result<void> quantize(const model::Checkpoint& checkpoint, const std::string& out, const Options& options,
                      ComputePool& pool, const Hooks& hooks) {
  PAGODA_TRY(check_family(checkpoint));
  Run run(checkpoint, options, pool, hooks);
  // What can't be written should fail before the work is done.
  PAGODA_TRY(quantized_config(checkpoint, options, run.dtype()));
  HfFolderWriter writer = PAGODA_TRY(HfFolderWriter::open(out, checkpoint, options_name(options)));
  PAGODA_TRY(run.write_parts(writer));
  return writer.finish(options, run.dtype());
}

}  // namespace pagoda::quantize
