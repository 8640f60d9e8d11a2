#include "quantize/quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/loader/model_check.h"
#include "quantize/awq_layer.h"
#include "quantize/layer_coder.h"
#include "quantize/working_source.h"
#include "quantize/writer/code_formats.h"
#include "quantize/writer/float_tensor.h"
#include "quantize/writer/hf_config.h"
#include "quantize/writer/hf_folder_writer.h"

namespace pagoda::quantize {
namespace {

void append(std::vector<OutTensor>& all, std::vector<OutTensor> some) {
  for (OutTensor& tensor : some) all.push_back(std::move(tensor));
}

// AutoAWQ and the kernels of others for its format know float16 alone.
std::string dtype_of(const Job& job) {
  return job.options.method == Method::kAwq ? "F16" : float_dtype_of(job.checkpoint);
}

class Run {
 public:
  Run(const Job& job, HfFolderWriter& writer, ComputePool& pool, const Hooks& hooks)
      : job_(job),
        config_(job.checkpoint.config),
        options_(job.options),
        writer_(writer),
        pool_(pool),
        hooks_(hooks),
        dtype_(dtype_of(job)),
        working_(*job.checkpoint.tensors) {}

  Result<void> write_parts();

 private:
  Result<void> step(int64_t cost = 1);
  int64_t layer_cost(int index) const;
  int64_t linear_cost() const;
  Result<int> begin_calibration();
  Result<std::vector<float>> weights(const Linear& linear) const;
  Result<std::vector<OutTensor>> round_layer(int index);
  Result<std::vector<OutTensor>> calibrated_layer(int index);
  // The calibration goes on with what the codes stand for.
  void use(const Linear& linear, const CodedMatrix& coded);
  // The inputs of the next layer, now that this one has its new weights.
  Result<void> advance(int index);
  // Tensors of layer `index`, or of none (-1), that stay floats.
  Result<std::vector<OutTensor>> floats(int index) const;
  std::string inputs_path(int index) const {
    return writer_.scratch_path(fmt::format("inputs-{:05}.bin", index));
  }

  const Job& job_;
  const model::ModelConfig& config_;
  const Options& options_;
  HfFolderWriter& writer_;
  ComputePool& pool_;
  const Hooks& hooks_;
  std::string dtype_;
  WorkingSource working_;
  std::optional<Calibration> calibration_;
  Hooks::Progress progress_;
};

Result<void> Run::step(int64_t cost) {
  progress_.done += cost;
  if (hooks_.progress) hooks_.progress(progress_);
  if (!hooks_.cancelled || !hooks_.cancelled()) return {};
  return make_error(ErrorKind::kCancelled, "interrupted");
}

// A matrix costs about as much as an eighth of the samples do (Qwen2.5-Coder-0.5B).
int64_t Run::linear_cost() const {
  return options_.calibrated() ? 1 + static_cast<int64_t>(job_.samples.size() / 8) : 1;
}

int64_t Run::layer_cost(int index) const {
  const auto linears = static_cast<int64_t>(layer_linears(config_, index).size());
  const int64_t samples = options_.calibrated() ? 3 * static_cast<int64_t>(job_.samples.size()) : 0;
  return linears * linear_cost() + samples;
}

Result<std::vector<float>> Run::weights(const Linear& linear) const {
  const auto reader = PAGODA_TRY(working_.matrix(linear.stem + ".weight", linear.rows, linear.depth));
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

Result<std::vector<OutTensor>> Run::round_layer(int index) {
  std::vector<OutTensor> tensors;
  for (const Linear& linear : layer_linears(config_, index)) {
    const auto values = PAGODA_TRY(weights(linear));
    if (options_.method == Method::kInt8) {
      const auto codes = round_channels(values.data(), linear.rows, linear.depth, dtype_, pool_);
      append(tensors, channel_tensors(linear.stem, codes));
    } else {
      append(tensors,
             gptq_tensors(linear.stem, round_to_nearest(values.data(), options_.shape(linear), pool_)));
    }
    PAGODA_TRY(step());
  }
  return tensors;
}

void Run::use(const Linear& linear, const CodedMatrix& coded) {
  std::vector<float> values(static_cast<size_t>(linear.rows * linear.depth));
  coded.dequantise(values.data(), pool_);
  working_.set_matrix(linear.stem + ".weight", linear.rows, linear.depth, std::move(values));
}

Result<std::vector<OutTensor>> Run::calibrated_layer(int index) {
  PAGODA_TRY(calibration_->load(index, working_));
  LayerStatistics statistics = PAGODA_TRY(calibration_->collect([&] { return step(2); }));
  const bool scaled = options_.method == Method::kAwq;
  LayerHessians hessians;
  if (scaled) {
    hessians = PAGODA_TRY(scale_layer({config_, index, options_}, statistics, working_, pool_));
  } else {
    hessians = hessians_of(statistics);
  }
  LayerCoder coder(std::move(hessians), options_, pool_);
  std::vector<OutTensor> tensors;
  for (const Linear& linear : layer_linears(config_, index)) {
    const auto values = PAGODA_TRY(weights(linear));
    const CodedMatrix coded = coder.code(linear, values.data());
    use(linear, coded);
    append(tensors, scaled ? awq_tensors(linear.stem, coded) : gptq_tensors(linear.stem, coded));
    PAGODA_TRY(step(linear_cost()));
  }
  return tensors;
}

Result<void> Run::advance(int index) {
  const std::string prefix = fmt::format("model.layers.{}.", index);
  if (index + 1 < config_.num_layers) {
    PAGODA_TRY(calibration_->load(index, working_));
    PAGODA_TRY(calibration_->advance([&] { return step(); }));
    PAGODA_TRY(calibration_->save(inputs_path(index + 1)));
    std::error_code ignored;
    std::filesystem::remove(inputs_path(index), ignored);
  }
  working_.reset(prefix);
  return {};
}

Result<std::vector<OutTensor>> Run::floats(int index) const {
  std::unordered_set<std::string> coded;
  if (index >= 0) {
    for (const Linear& linear : layer_linears(config_, index)) coded.insert(linear.stem + ".weight");
  }
  const std::string layers = "model.layers.", own = fmt::format("{}{}.", layers, index);
  std::vector<OutTensor> tensors;
  for (const model::RequiredTensor& tensor : model::required_tensors(config_)) {
    const bool wanted = index >= 0 ? tensor.name.starts_with(own) : !tensor.name.starts_with(layers);
    if (!wanted || coded.contains(tensor.name)) continue;
    tensors.push_back(PAGODA_TRY(float_tensor(config_, working_, tensor, dtype_)));
  }
  return tensors;
}

// The layer to begin with: that whose inputs an earlier run has left, else the first.
Result<int> Run::begin_calibration() {
  PAGODA_CHECK(!job_.samples.empty(), "no samples");
  calibration_ = PAGODA_TRY(Calibration::create(job_.checkpoint, job_.samples, pool_));
  for (int index = config_.num_layers - 1; index > 0; --index) {
    if (!writer_.has_part(index - 1)) continue;
    if (PAGODA_TRY(calibration_->restore(inputs_path(index)))) return index;
  }
  return 0;
}

Result<void> Run::write_parts() {
  const int num_layers = config_.num_layers;
  const bool calibrated = options_.calibrated();
  bool complete = true;
  for (int index = 0; index < num_layers; ++index) complete = complete && writer_.has_part(index);
  int first = 0;
  if (calibrated && !complete) first = PAGODA_TRY(begin_calibration());
  const auto is_done = [&](int index) {
    return calibrated ? complete || index < first : writer_.has_part(index);
  };
  for (int index = 0; index < num_layers; ++index) {
    progress_.total += layer_cost(index);
    if (is_done(index)) progress_.skipped += layer_cost(index);
  }
  progress_.done = progress_.skipped;
  for (int index = 0; index < num_layers; ++index) {
    if (is_done(index)) continue;
    auto tensors = PAGODA_TRY(calibrated ? calibrated_layer(index) : round_layer(index));
    append(tensors, PAGODA_TRY(floats(index)));
    PAGODA_TRY(writer_.write_part(index, std::move(tensors)));
    if (calibrated) PAGODA_TRY(advance(index));
  }
  if (writer_.has_part(num_layers)) return {};
  return writer_.write_part(num_layers, PAGODA_TRY(floats(-1)));
}

}  // namespace

Result<void> quantize(const Job& job, ComputePool& pool, const Hooks& hooks) {
  PAGODA_TRY(check_family(job.checkpoint));
  const std::string dtype = dtype_of(job);
  // What can't be written should fail before the work is done.
  PAGODA_TRY(quantized_config(job.checkpoint, job.options, dtype));
  std::string key = options_name(job.options);
  if (job.options.calibrated()) {
    key += fmt::format(", {} samples {:016x}", job.samples.size(), samples_hash(job.samples));
  }
  HfFolderWriter writer = PAGODA_TRY(HfFolderWriter::open(job.out, job.checkpoint, key));
  PAGODA_TRY(Run(job, writer, pool, hooks).write_parts());
  return writer.finish(job.options, dtype);
}

}  // namespace pagoda::quantize
