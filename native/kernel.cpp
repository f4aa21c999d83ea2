// The hot loops: plain C++ with the compiler's vector types. Compiled once per instruction set; OPDIFF_KERNEL names the
// result.

#include "kernel.hpp"

#include <cmath>

#include "decode.hpp"
#include "divergence.hpp"
#include "graph_sums.hpp"
#include "ranking.hpp"
#include "float_block.hpp"
#include "transpose.hpp"
#include "double_block.hpp"

namespace opdiff {
namespace {

template <typename Real> bool is_finite(const Real *numbers, int n) {
    Real sum = 0;
    // A number minus itself is NaN unless it is finite.
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; ++i)
        sum += numbers[i] - numbers[i];
    return sum == 0;
}

template <typename Real>
void add_moments(const Real *x_, const Real *y_, int n, double pivot_x, double pivot_y, Moments &moments) {
    double sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
#pragma omp simd reduction(+ : sx, sy, xx, yy, xy)
    for (int i = 0; i < n; ++i) {
        const double x = static_cast<double>(x_[i]) - pivot_x, y = static_cast<double>(y_[i]) - pivot_y;
        sx += x;
        sy += y;
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    moments = {sx, sy, xx, yy, xy};
}

}  // namespace

#if defined(__AVX512BW__)
#define OPDIFF_KERNEL kV4
#define OPDIFF_NAME "x86-64-v4"
#elif defined(__AVX2__)
#define OPDIFF_KERNEL kV3
#define OPDIFF_NAME "x86-64-v3"
#elif defined(__x86_64__)
#define OPDIFF_KERNEL kBaseline
#define OPDIFF_NAME "x86-64"
#elif defined(__aarch64__)
#define OPDIFF_KERNEL kBaseline
#define OPDIFF_NAME "aarch64"
#else
#define OPDIFF_KERNEL kBaseline
#define OPDIFF_NAME "generic"
#endif

extern const Kernel OPDIFF_KERNEL = {
    OPDIFF_NAME,
    {decode<float>, measure_floats, find<float>, add_divergence<float>, add_graph<float>, add_moments<float>,
     is_finite<float>},
    {decode<double>, measure_doubles, find<double>, add_divergence<double>, add_graph<double>, add_moments<double>,
     is_finite<double>},
    transpose,
};

}  // namespace opdiff
