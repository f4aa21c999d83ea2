// The bytes of one tensor in memory: read when few, mapped when many, or handed over by the caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "opdiff_kernel.h"

namespace opdiff {

// A buffer that starts half a page behind a page: copying from a file to the place right behind a page's beginning is
// several times slower on some processors.
class Buffer {
public:
    Buffer() = default;
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer();
    // Null when there is not enough memory.
    unsigned char *reserve(size_t size);

private:
    unsigned char *memory_ = nullptr;
    size_t size_ = 0;
};

struct Problem {
    od_status status = OD_DONE;
    int64_t detail = 0;
};

class Mapping {
public:
    Mapping() = default;
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    ~Mapping();
    Problem open(const char *path, int64_t offset, int64_t size);
    const unsigned char *data() const { return data_; }
    bool holds(const void *address) const;
    // The pages may leave this process; they are fetched again when they are looked at.
    void release() const;

private:
    void *start_ = nullptr;
    size_t length_ = 0;
    const unsigned char *data_ = nullptr;
};

Problem read_all(const char *path, int64_t offset, int64_t size, unsigned char *out);

// Runs `work`; returns null, or the address of memory that turned out to be mapped from beyond the end of a file, which
// has shrunk meanwhile (any address when it is not known). What `work` leaves behind is not cleaned up then, so it must
// own nothing.
const void *guarded(void (*work)(void *), void *argument);

// Catches those accesses while it exists, in all threads.
class FaultHandler {
public:
    FaultHandler();
    FaultHandler(const FaultHandler &) = delete;
    FaultHandler &operator=(const FaultHandler &) = delete;
    ~FaultHandler();
};

}  // namespace opdiff
