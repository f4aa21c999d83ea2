// Bytes of a tensor: small files are read, large ones mapped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "opdiff_kernel.h"

namespace opdiff {

// A buffer that starts half a page after a page boundary: on some processors, copying from a file to an address just
// after a boundary is several times slower.
class Buffer {
public:
    Buffer() = default;
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer();
    // Null if memory is exhausted.
    unsigned char *reserve(size_t size);

private:
    unsigned char *memory_ = nullptr;
    size_t size_ = 0;
};

struct Failure {
    od_status status = OD_DONE;
    int64_t detail = 0;
};

class Mapping {
public:
    Mapping() = default;
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    ~Mapping();
    Failure open(const char *path, int64_t offset, int64_t size);
    const unsigned char *data() const { return data_; }
    bool holds(const void *address) const;
    // Returns the pages to the system; they are loaded again on access.
    void release() const;

private:
    void *start_ = nullptr;
    size_t length_ = 0;
    const unsigned char *data_ = nullptr;
};

Failure read_all(const char *path, int64_t offset, int64_t size, unsigned char *out);

// Runs `work`; returns null, or the faulting address if a mapped file was truncated meanwhile (an arbitrary address if
// it is unknown). `work` is then left by a jump without cleanup, so it must not own resources.
const void *guarded(void (*work)(void *), void *argument);

// Handles such faults in all threads during its lifetime.
class FaultHandler {
public:
    FaultHandler();
    FaultHandler(const FaultHandler &) = delete;
    FaultHandler &operator=(const FaultHandler &) = delete;
    ~FaultHandler();
};

}  // namespace opdiff
