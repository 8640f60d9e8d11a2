#include "kernels/isa.h"

#include "base/check.h"

namespace pagoda::kernels {
namespace {

// Until someone calls set_isa: PAGODA_FORCE_ISA if it is valid, else the best tier. A wrong value is reported
// by whoever starts the process (choose_isa).
Isa initial_isa() {
  const Result<Isa> chosen = choose_isa();
  return chosen ? *chosen : detect_isa();
}

Isa& isa() {
  static Isa current = initial_isa();
  return current;
}

}  // namespace

void set_isa(Isa wanted) {
  PAGODA_CHECK(wanted <= detect_isa(), "this CPU has no {}", isa_name(wanted));
  isa() = wanted;
}

Isa current_isa() {
  return isa();
}

}  // namespace pagoda::kernels
