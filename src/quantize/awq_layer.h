// Where the scales of AWQ go: the inputs' division becomes part of what made them, a norm or another matrix.
#pragma once

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/config.h"
#include "quantize/calibration.h"
#include "quantize/options.h"
#include "quantize/working_source.h"

namespace pagoda::quantize {

struct AwqLayer {
  const model::ModelConfig& config;
  int index = 0;
  const Options& options;
};

// Finds the scales of the layer and applies them to the weights in `working`, which the layer's outputs
// don't change by: the norms divide the inputs of q, k, v and of gate, up; the rows of v those of o, the rows
// of up those of down. Layers without gate have no scales for down. `statistics` are used up; the Hessians
// that come back are those of the divided inputs.
Result<LayerHessians> scale_layer(const AwqLayer& layer, LayerStatistics& statistics, WorkingSource& working,
                                  ComputePool& pool);

}  // namespace pagoda::quantize
