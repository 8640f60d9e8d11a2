// 16 lanes of GCC's vector extension, for bodies that are written once: a tier's file includes this inside
// its own anonymous namespace, so each has a copy made with its own instructions. Multiplications and
// additions stay apart (-ffp-contract=off), which makes the tiers agree bit for bit. No include guard: the
// includer's namespace is part of it.
using Vec = float __attribute__((vector_size(64)));
using Mask = int32_t __attribute__((vector_size(64)));

#define PAGODA_BODY static inline __attribute__((always_inline))

PAGODA_BODY void load(const float* from, Vec& to) {
  __builtin_memcpy(&to, from, sizeof(Vec));
}
PAGODA_BODY void store(float* to, const Vec& from) {
  __builtin_memcpy(to, &from, sizeof(Vec));
}
// The first `count` < 16 lanes; the others are `rest`.
PAGODA_BODY void load_part(const float* from, int64_t count, float rest, Vec& to) {
  for (int lane = 0; lane < 16; ++lane) to[lane] = lane < count ? from[lane] : rest;
}
PAGODA_BODY void load_up_to(const float* from, int64_t left, float rest, Vec& to) {
  if (left >= 16) {
    load(from, to);
  } else {
    load_part(from, left, rest, to);
  }
}
PAGODA_BODY void store_up_to(float* to, int64_t left, const Vec& from) {
  if (left >= 16) return store(to, from);
  for (int lane = 0; lane < left; ++lane) to[lane] = from[lane];
}
PAGODA_BODY float sum_of(const Vec& v) {
  float lanes[16];
  store(lanes, v);
  for (int width = 8; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}
PAGODA_BODY float max_of(const Vec& v) {
  float best = v[0];
  for (int lane = 1; lane < 16; ++lane) best = v[lane] > best ? v[lane] : best;
  return best;
}
