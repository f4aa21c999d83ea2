#include "file_data.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <mutex>

namespace opdiff {
namespace {

constexpr size_t kPage = 4096;

thread_local sigjmp_buf *recovery_point = nullptr;
thread_local const void *fault_address = nullptr;

std::mutex handlers_lock;
int handlers = 0;
struct sigaction previous;

void on_fault(int, siginfo_t *info, void *) {
    if (recovery_point) {
        fault_address = info->si_addr;
        siglongjmp(*recovery_point, 1);
    }
    // Not ours: restore the previous handler, and the access is repeated.
    sigaction(SIGBUS, &previous, nullptr);
}

class File {
public:
    explicit File(const char *path) : descriptor_(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    ~File() {
        if (descriptor_ >= 0)
            ::close(descriptor_);
    }
    int descriptor() const { return descriptor_; }
    int64_t size() const {
        struct stat status;
        return fstat(descriptor_, &status) == 0 ? static_cast<int64_t>(status.st_size) : 0;
    }
    // 0 for a regular file: a pipe that replaced a dump must not block, and a device has no end.
    int problem() const {
        struct stat status;
        if (fstat(descriptor_, &status) != 0)
            return errno;
        return S_ISREG(status.st_mode) ? 0 : S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    }

private:
    int descriptor_;
};

}  // namespace

Buffer::~Buffer() { std::free(memory_); }

unsigned char *Buffer::reserve(size_t size) {
    if (size > size_ || !memory_) {
        std::free(memory_);
        void *memory = nullptr;
        size_ = posix_memalign(&memory, kPage, size + kPage) == 0 ? size : 0;
        memory_ = size_ || size == 0 ? static_cast<unsigned char *>(memory) : nullptr;
    }
    return memory_ ? memory_ + kPage / 2 : nullptr;
}

Failure read_all(const char *path, int64_t offset, int64_t size, unsigned char *out) {
    const File file(path);
    if (file.descriptor() < 0)
        return {OD_NO_FILE, errno};
    if (const int problem = file.problem())
        return {OD_CANNOT_READ, problem};
    for (int64_t done = 0; done < size;) {
        const ssize_t got = pread(file.descriptor(), out + done, static_cast<size_t>(size - done), offset + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return {OD_CANNOT_READ, errno};
        if (got == 0)
            return {OD_TOO_SHORT, file.size()};
        done += got;
    }
    return {};
}

Mapping::~Mapping() {
    if (start_)
        munmap(start_, length_);
}

Failure Mapping::open(const char *path, int64_t offset, int64_t size) {
    const File file(path);
    if (file.descriptor() < 0)
        return {OD_NO_FILE, errno};
    if (const int problem = file.problem())
        return {OD_CANNOT_READ, problem};
    if (file.size() < offset + size)
        return {OD_TOO_SHORT, file.size()};
    if (size == 0)
        return {};
    const int64_t start = offset / static_cast<int64_t>(kPage * 16) * static_cast<int64_t>(kPage * 16);
    const size_t length = static_cast<size_t>(offset - start + size);
    void *mapped = mmap(nullptr, length, PROT_READ, MAP_SHARED, file.descriptor(), start);
    if (mapped == MAP_FAILED)
        return {OD_CANNOT_READ, errno};
    start_ = mapped;
    length_ = length;
    data_ = static_cast<const unsigned char *>(mapped) + (offset - start);
    return {};
}

bool Mapping::holds(const void *address) const {
    const auto place = reinterpret_cast<uintptr_t>(address), start = reinterpret_cast<uintptr_t>(start_);
    return start_ && place >= start && place - start < length_;
}

void Mapping::release() const {
    if (start_)
        madvise(start_, length_, MADV_DONTNEED);
}

const void *guarded(void (*work)(void *), void *argument) {
    sigjmp_buf here;
    if (sigsetjmp(here, 1)) {
        recovery_point = nullptr;
        return fault_address ? fault_address : argument;
    }
    recovery_point = &here;
    work(argument);
    recovery_point = nullptr;
    return nullptr;
}

FaultHandler::FaultHandler() {
    const std::lock_guard<std::mutex> lock(handlers_lock);
    if (handlers++)
        return;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
}

FaultHandler::~FaultHandler() {
    const std::lock_guard<std::mutex> lock(handlers_lock);
    if (--handlers == 0)
        sigaction(SIGBUS, &previous, nullptr);
}

}  // namespace opdiff
