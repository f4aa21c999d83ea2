// Reference for benchmarks: one core reads memory as fast as it can and does nothing else.

#include <cstdint>
#include <cstring>

#include "opdiff_kernel.h"

namespace {

typedef uint64_t Words __attribute__((vector_size(16)));

// Independent sums, two cache lines at a time.
constexpr int kSums = 8;
constexpr int64_t kStep = kSums * static_cast<int64_t>(sizeof(Words));
// Prefetch distance in bytes. Without prefetching the read takes up to twice as long; the distance matters little.
constexpr int64_t kAhead = 4096;

}  // namespace

extern "C" uint64_t od_read(const void *data, int64_t nbytes) {
    const auto *bytes = static_cast<const unsigned char *>(data);
    Words sums[kSums] = {};
    for (int64_t at = 0; at + kStep <= nbytes; at += kStep) {
        __builtin_prefetch(bytes + at + kAhead);
        __builtin_prefetch(bytes + at + kAhead + kStep / 2);
        for (int i = 0; i < kSums; ++i) {
            Words words;
            std::memcpy(&words, bytes + at + i * static_cast<int64_t>(sizeof words), sizeof words);
            sums[i] += words;
        }
    }
    for (int i = 1; i < kSums; ++i)
        sums[0] += sums[i];
    return sums[0][0] + sums[0][1];
}
