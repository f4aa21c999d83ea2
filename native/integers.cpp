#include "integers.hpp"

#include <cstring>

#include "scalars.hpp"

namespace opdiff {
namespace {

__int128 integer_at(const Side &side, const unsigned char *codes, int i) {
    int64_t code = 0;
    const unsigned char *at = codes + static_cast<int64_t>(i) * side.size;
    switch (side.kind) {
    case OD_BOOL: return *at != 0;
    case OD_INT8: return static_cast<int8_t>(*at);
    case OD_UINT8: return *at;
    case OD_INT16: { int16_t v; std::memcpy(&v, at, 2); return v; }
    case OD_UINT16: { uint16_t v; std::memcpy(&v, at, 2); return v; }
    case OD_INT32: { int32_t v; std::memcpy(&v, at, 4); return v; }
    case OD_UINT32: { uint32_t v; std::memcpy(&v, at, 4); return v; }
    default: std::memcpy(&code, at, 8); break;
    }
    return side.kind == OD_INT64 ? static_cast<__int128>(code) : static_cast<__int128>(static_cast<uint64_t>(code));
}

// An element of one side in an `Extreme`: the number, or the bits of a 64-bit integer.
int64_t element_bits(const Side &side, const unsigned char *codes, int i, double number) {
    return side.is_wide_integer() ? static_cast<int64_t>(integer_at(side, codes, i)) : bit_cast<int64_t>(number);
}

// Both halves of a 64-bit integer are exact doubles, so that the difference from a float is rounded once.
double minus(const Side &side, const unsigned char *codes, int i, double other) {
    const __int128 number = integer_at(side, codes, i);
    // The halves of a small integer are larger than their sum and would round more.
    if (constexpr __int128 kExact = __int128{1} << 53; -kExact < number && number < kExact)
        return static_cast<double>(number) - other;
    const double high = static_cast<double>(static_cast<int64_t>(number >> 32)) * 0x1p32;
    return (high - other) + static_cast<double>(static_cast<uint32_t>(number));
}

__int128 integer_error(const Pair &pair, const EncodedBlock &codes, int at) {
    return integer_at(pair.target, codes.x, at) - integer_at(pair.golden, codes.y, at);
}

}  // namespace

Extreme extreme_at(const Pair &pair, const EncodedBlock &codes, int i, double x, double y, double value) {
    const int at = codes.positions ? codes.positions[i] : i;
    Extreme extreme;
    extreme.value = value;
    extreme.index = codes.start + at;
    extreme.target = element_bits(pair.target, codes.x, at, x);
    extreme.golden = element_bits(pair.golden, codes.y, at, y);
    return extreme;
}

double exact_error(const Pair &pair, const EncodedBlock &codes, int i, double x, double y) {
    const int at = codes.positions ? codes.positions[i] : i;
    if (pair.target.is_integer() && pair.golden.is_integer())
        return static_cast<double>(integer_error(pair, codes, at));
    return pair.target.is_wide_integer() ? minus(pair.target, codes.x, at, y) : -minus(pair.golden, codes.y, at, x);
}

Extreme worst_integer(const Pair &pair, const EncodedBlock &codes, int n) {
    int worst = 0;
    unsigned __int128 most = 0;
    for (int i = 0; i < n; ++i) {
        const __int128 error = integer_error(pair, codes, i);
        const auto size = static_cast<unsigned __int128>(error < 0 ? -error : error);
        if (size > most) {
            most = size;
            worst = i;
        }
    }
    const double x = static_cast<double>(integer_at(pair.target, codes.x, worst));
    const double y = static_cast<double>(integer_at(pair.golden, codes.y, worst));
    Extreme found = extreme_at(pair, codes, worst, x, y, static_cast<double>(most));
    found.exact = most;
    return found;
}

void update_integer_range(const Side &side, const unsigned char *codes, int n, SideSums &sums) {
    if (!side.is_wide_integer())
        return;
    for (int i = 0; i < n; ++i) {
        const int64_t bits = static_cast<int64_t>(integer_at(side, codes, i));
        const bool first = !sums.has_integers;
        sums.has_integers = true;
        sums.lowest_integer =
            first || is_below(bits, sums.lowest_integer, side.kind) ? bits : sums.lowest_integer;
        sums.highest_integer =
            first || is_below(sums.highest_integer, bits, side.kind) ? bits : sums.highest_integer;
    }
}

}  // namespace opdiff
