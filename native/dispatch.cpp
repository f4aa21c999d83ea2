// Selects the kernel for this machine.

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernel.hpp"

namespace opdiff {

#if defined(__x86_64__) && !defined(OPDIFF_BASELINE_ONLY)
namespace {

// Whether processor and system support x86-64-v3. Not every compiler has a builtin for it.
bool is_v3() {
    unsigned a, b, c, d;
    constexpr unsigned kFeatures1 = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_MOVBE;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kFeatures1) != kFeatures1)
        return false;
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    constexpr unsigned kSavedState = 6;
    if ((low & kSavedState) != kSavedState)
        return false;
    constexpr unsigned kFeatures7 = bit_AVX2 | bit_BMI | bit_BMI2, kLzcnt = 1u << 5;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & kFeatures7) != kFeatures7)
        return false;
    return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & kLzcnt);
}

// Likewise x86-64-v4, with vectors of 64 bytes.
bool is_v4() {
    if (!is_v3())
        return false;
    unsigned low, high, a, b, c, d;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    constexpr unsigned kSavedState = 0xe6;
    constexpr unsigned kFeatures7 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    return (low & kSavedState) == kSavedState && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (b & kFeatures7) == kFeatures7;
}

}  // namespace
#endif

const Kernel &kernel() {
#if defined(__x86_64__) && !defined(OPDIFF_BASELINE_ONLY)
    static const Kernel &best = is_v4() ? kV4 : is_v3() ? kV3 : kBaseline;
    return best;
#else
    return kBaseline;
#endif
}

}  // namespace opdiff
