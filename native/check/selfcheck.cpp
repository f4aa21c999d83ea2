// Measures a pair with known results; needs nothing but this program.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "opdiff_kernel.h"

namespace {

int problems = 0;

void expect(const char *what, double found, double is_needed) {
    if (std::fabs(found - is_needed) <= 1e-12 * std::fabs(is_needed))
        return;
    std::printf("%s: %.17g, expected %.17g\n", what, found, is_needed);
    ++problems;
}

double number(int64_t bits) {
    double found;
    std::memcpy(&found, &bits, sizeof found);
    return found;
}

int64_t address(const void *data) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data)); }

}  // namespace

int main() {
    // Float16 numbers 0 … 2047, stored by column, against float32 numbers, stored by row, one of which is off by 4.
    constexpr int64_t rows = 1500, columns = 1000, count = rows * columns;
    std::vector<uint16_t> target(count);
    std::vector<float> golden(count);
    const auto half = [](int64_t number) {
        int exponent = 0;
        while (number >> (exponent + 1))
            ++exponent;
        return static_cast<uint16_t>(number ? ((exponent + 15) << 10) | ((number << 10 >> exponent) & 0x3ff) : 0);
    };
    double total = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t number = i % 2048;
        target[static_cast<size_t>(i % columns * rows + i / columns)] = half(number);
        golden[static_cast<size_t>(i)] = static_cast<float>(number);
        total += static_cast<double>(number);
    }
    golden[123456] += 4;
    const od_axis axes[2] = {{rows, 1, 1, 0}, {columns, 1, rows, 0}};
    const od_side sides[2] = {{-1, address(target.data()), 0, 2 * count, OD_FLOAT16, 0, 0, 2},
                              {-1, address(golden.data()), 0, 4 * count, OD_FLOAT32, 0, 0, 0}};
    const od_job job = {sides[0], sides[1], count, count, 10, -14, OD_WITH_KL};
    od_result result = {};
    od_batch batch = {};
    batch.jobs = &job;
    batch.results = &result;
    batch.axes = axes;
    batch.axes_count = 2;
    batch.count = 1;
    batch.threads = 2;
    batch.resident = 1 << 20;
    expect("code", static_cast<double>(od_measure(&batch)), 0);
    expect("status", static_cast<double>(result.status), OD_DONE);
    expect("unequal", static_cast<double>(result.unequal), 1);
    expect("index", static_cast<double>(result.worst.index), 123456);
    expect("sum", result.target.total, total);
    expect("sum of the golden tensor", result.golden.total, total + 4);
    expect("errors", result.errors, -4);
    expect("squares of errors", result.error_squares, 16);
    expect("pairs without an error", static_cast<double>(result.ulp_bins[0]), static_cast<double>(count - 1));
    expect("largest golden value", number(result.golden.maximum), 2047);
    expect("no mismatch of NaNs and infinities", static_cast<double>(result.first_mismatch), -1);
    std::printf("%s: %d problems\n", od_instructions(), problems);
    return problems != 0;
}
