// Who wants to see what the projections of a step multiply with.
#pragma once

#include "kernels/activations.h"

namespace pagoda::model {

class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // `projection` is the address of the Projection whose input is complete; x is valid during the call.
  virtual void observe(const void* projection, const kernels::Activations& x) = 0;
};

}  // namespace pagoda::model
