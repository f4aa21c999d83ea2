// Exact sum of doubles: a fixed-point number that covers the whole range of doubles. Numbers of similar magnitude use
// few of its digits, and only these are looked at.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace opdiff {

class ExactSum {
public:
    ExactSum() = default;
    ExactSum(const ExactSum &other) { *this = other; }
    ExactSum &operator=(const ExactSum &other) {
        first_ = other.first_;
        last_ = other.last_;
        pending_ = other.pending_;
        for (int i = first_; i <= last_; ++i)
            digits_[i] = other.digits_[i];
        return *this;
    }

    void add(double value) {
        if (value == 0)
            return;
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        const int exponent = static_cast<int>(bits >> 52) & 0x7ff;
        int64_t mantissa = static_cast<int64_t>(bits & ((uint64_t{1} << 52) - 1));
        int position = exponent;
        if (exponent)
            mantissa |= int64_t{1} << 52;
        else
            position = 1;
        // The lowest bit of the mantissa has the weight 2^(position - 1075); digit k has the weight 2^(32k - 1074).
        position -= 1;
        const int digit = position >> 5, shift = position & 31;
        const __int128 wide = static_cast<__int128>(mantissa) << shift;
        const int64_t sign = -static_cast<int64_t>(bits >> 63);
        use(digit, digit + 2);
        for (int i = 0; i < 3; ++i) {
            const int64_t part = static_cast<int64_t>((wide >> (32 * i)) & 0xffffffff);
            digits_[digit + i] += (part ^ sign) - sign;
        }
        if (++pending_ == kMaxPending)
            carry();
    }

    void add(const ExactSum &other) {
        if (other.last_ < 0)
            return;
        carry();
        use(other.first_, other.last_);
        for (int i = other.first_; i <= other.last_; ++i)
            digits_[i] += other.digits_[i];
        carry();
    }

    // The sum as a double, and the remainder as another.
    void split(double &high, double &low) const {
        high = value();
        ExactSum rest = *this;
        rest.add(-high);
        low = rest.value();
    }

    // The nearest double or its neighbour: the four digits used hold at least 97 bits.
    double value() const {
        if (last_ < 0)
            return 0;
        ExactSum sum = *this;
        sum.carry();
        const bool negative = sum.digits_[sum.last_] < 0;
        if (negative) {
            for (int i = sum.first_; i <= sum.last_; ++i)
                sum.digits_[i] = -sum.digits_[i];
            sum.carry();
        }
        int top = sum.last_;
        while (top > sum.first_ && sum.digits_[top] == 0)
            --top;
        double result = 0;
        for (int i = top; i >= sum.first_ && i > top - 4; --i)
            result += std::ldexp(static_cast<double>(sum.digits_[i]), 32 * i - 1074);
        return negative ? -result : result;
    }

private:
    static constexpr int kDigits = 68;
    // Additions before carrying: each changes a digit by less than 2^32.
    static constexpr int kMaxPending = 1 << 29;

    // Extends the used digits.
    void use(int first, int last) {
        if (last_ < 0)
            first_ = first, last_ = first - 1;
        while (first_ > first)
            digits_[--first_] = 0;
        while (last_ < last)
            digits_[++last_] = 0;
    }

    // Normalizes every used digit but the last to 0 … 2^32 - 1; the last keeps the sign.
    void carry() {
        pending_ = 0;
        if (last_ < 0)
            return;
        int64_t over = 0;
        for (int i = first_; i < last_; ++i) {
            const int64_t sum = digits_[i] + over;
            digits_[i] = sum & 0xffffffff;
            over = sum >> 32;
        }
        digits_[last_] += over;
        while (last_ < kDigits - 1 && digits_[last_] >> 32 != 0 && digits_[last_] >> 32 != -1) {
            const int64_t sum = digits_[last_];
            digits_[last_] = sum & 0xffffffff;
            digits_[++last_] = sum >> 32;
        }
    }

    // Only the digits from the first to the last are defined; others are zero. The last is negative if there are none.
    int64_t digits_[kDigits];
    int first_ = 0, last_ = -1;
    int pending_ = 0;
};

}  // namespace opdiff
