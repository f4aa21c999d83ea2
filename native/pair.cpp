#include "pair.hpp"

#include <algorithm>

#include "scalars.hpp"

namespace opdiff {
namespace {

constexpr int kSizes[OD_KINDS] = {2, 2, 4, 8, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8};

}  // namespace

int size_of(int64_t kind) { return kind < 0 || kind >= OD_KINDS ? 0 : kSizes[kind]; }

bool Pair::has_wide_integers() const { return target.is_wide_integer() || golden.is_wide_integer(); }

bool Pair::fits_float() const {
    const auto in_float = [](const Side &side) {
        return side.kind != OD_FLOAT64 && side.kind != OD_INT32 && side.kind != OD_UINT32 && !side.is_wide_integer();
    };
    return in_float(target) && in_float(golden);
}

const StridedView *Pair::tiled_view() const {
    return target.view.tiled() ? &target.view : golden.view.tiled() ? &golden.view : nullptr;
}

void Pair::plan() {
    if (run <= 0 || run > count || count % std::max<int64_t>(run, 1))
        run = std::max<int64_t>(count, 1);
    target.view.plan_tiles(run);
    golden.view.plan_tiles(run);
    if (const StridedView *tiles = tiled_view()) {
        const int64_t together = tiles->tiles_per_group(), size = count / tiles->tiles() + 1;
        unit_ = ceil_div(std::max<int64_t>(kUnitElements / size, 1), together) * together;
        units_ = ceil_div(tiles->tiles(), unit_);
    } else if (run <= kUnitElements) {
        unit_ = kUnitElements / run * run;
        units_ = ceil_div(count, unit_);
    } else {
        unit_ = kUnitElements;
        units_ = count / run * ceil_div(run, unit_);
    }
}

}  // namespace opdiff
