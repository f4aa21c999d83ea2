#include "batch.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

#include "file_data.hpp"
#include "job.hpp"
#include "measure.hpp"

namespace opdiff {
namespace {

// Pairs up to this size are read and measured by one thread; larger ones are mapped and measured by all threads.
constexpr int64_t kMaxSmallPair = int64_t{2} << 20;

// Mapped pairs up to this multiple of the resident limit stay in memory for both passes. Loading their pages again takes
// longer than reading them.
constexpr int64_t kWholePairFactor = 4;

// Ratio of pages loaded to elements used if elements are scattered over a file.
constexpr int64_t kScatterFactor = 16;

// Small pairs that a thread takes at once.
constexpr size_t kSmallPairsAtOnce = 8;

// More threads would only wait for each other.
constexpr int64_t kMaxThreads = 512;

// Bytes of both sides according to the job.
int64_t declared_bytes(const od_job &job) {
    const int64_t target = std::max<int64_t>(job.target.nbytes, 0), golden = std::max<int64_t>(job.golden.nbytes, 0);
    return target > INT64_MAX - golden ? INT64_MAX : target + golden;
}

// A large pair being measured in parts.
struct Task {
    size_t job;
    Pair pair;
    Mapping target, golden;
    Sums sums;
    SecondPass second;
    bool in_second = false;
    int64_t left = 0, touched = 0;
    Failure failure;
    int failed_side = 0;
};

struct Part {
    std::shared_ptr<Task> task;
    int64_t unit = 0;
};

class Batch {
public:
    explicit Batch(od_batch &batch) : batch_(batch) {
        std::vector<size_t> order(static_cast<size_t>(batch.count));
        std::iota(order.begin(), order.end(), size_t{0});
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
        for (size_t job : order)
            (bytes(job) > kMaxSmallPair ? large_ : small_).push_back(job);
    }

    // Returns false if memory is exhausted.
    bool run() {
        const FaultHandler handler;
        const int64_t threads_used = std::min(batch_.threads, kMaxThreads);
        std::vector<std::thread> threads;
        threads.reserve(static_cast<size_t>(threads_used));
        try {
            for (int64_t i = 1; i < threads_used; ++i)
                threads.emplace_back([this] { work_or_stop(); });
        } catch (const std::system_error &) {
            // Continue with fewer threads.
        }
        work_or_stop();
        for (std::thread &thread : threads)
            thread.join();
        return !out_of_memory_;
    }

private:
    int64_t bytes(size_t job) const { return declared_bytes(batch_.jobs[job]) / 2; }
    bool cancelled() const { return out_of_memory_ || __atomic_load_n(&batch_.cancelled, __ATOMIC_RELAXED) != 0; }
    void report(int64_t bytes) { __atomic_fetch_add(&batch_.done, bytes, __ATOMIC_RELAXED); }

    void work_or_stop() {
        try {
            work();
        } catch (const std::bad_alloc &) {
            // Under the lock, so that no thread misses it between checking and waiting.
            const std::lock_guard<std::mutex> lock(lock_);
            out_of_memory_ = true;
            changed_.notify_all();
        }
    }

    void work() {
        const auto worker = std::make_unique<Worker>();
        Buffer target, golden;
        for (;;) {
            Part part;
            std::vector<size_t> jobs;
            if (!take(part, jobs))
                return;
            if (part.task)
                measure_part(*worker, part);
            for (size_t job : jobs)
                measure_small(*worker, job, target, golden);
        }
    }

    // Takes the next part of a large pair, or some small pairs; returns false when nothing is left.
    bool take(Part &part, std::vector<size_t> &jobs) {
        std::unique_lock<std::mutex> lock(lock_);
        while (!cancelled()) {
            if (!parts_.empty()) {
                part = parts_.front();
                parts_.pop_front();
                return true;
            }
            // A second large pair takes more memory. It is needed only if nothing else keeps the threads busy.
            if (next_large_ < large_.size() && open_ < (next_small_ < small_.size() ? 1 : 2)) {
                start(large_[next_large_++], lock);
                continue;
            }
            if (next_small_ < small_.size()) {
                const size_t end = std::min(next_small_ + kSmallPairsAtOnce, small_.size());
                jobs.assign(small_.begin() + static_cast<std::ptrdiff_t>(next_small_),
                            small_.begin() + static_cast<std::ptrdiff_t>(end));
                next_small_ = end;
                return true;
            }
            if (open_ == 0)
                break;
            changed_.wait(lock);
        }
        changed_.notify_all();
        return false;
    }

    bool prepare(size_t job, const void *target, const void *golden, Pair &pair) const {
        const od_job &description = batch_.jobs[job];
        if (!set_side(description.target, batch_, target, description.count, pair.target) ||
            !set_side(description.golden, batch_, golden, description.count, pair.golden) ||
            description.digits > 52 || description.min_exponent < -1022 || description.min_exponent > 1023)
            return false;
        pair.count = description.count;
        pair.run = description.run;
        const int digits = static_cast<int>(description.digits);
        pair.scale = {digits, static_cast<int>(description.min_exponent), pair.fits_float()};
        pair.with_kl = (description.flags & OD_WITH_KL) != 0;
        pair.for_graphs = (description.flags & OD_FOR_GRAPHS) != 0;
        pair.plan();
        return true;
    }

    void fail(size_t job, Failure failure, int failed_side = 0) {
        od_result &result = batch_.results[job];
        result.status = failure.status;
        result.detail = failure.detail;
        result.failed_side = failed_side;
    }

    const char *path(const od_side &side) const { return batch_.paths + side.path; }

    // Opens a large pair and lists its parts.
    void start(size_t job, std::unique_lock<std::mutex> &lock) {
        ++open_;
        lock.unlock();
        const od_job &description = batch_.jobs[job];
        auto task = std::make_shared<Task>();
        task->job = job;
        const auto data = [&](const od_side &side, Mapping &mapping, int number) -> const void * {
            if (side.path < 0)
                return reinterpret_cast<const void *>(side.data);
            if (task->failure.status == OD_DONE) {
                task->failure = mapping.open(path(side), side.offset, side.nbytes);
                task->failed_side = number;
            }
            return mapping.data();
        };
        Failure &failure = task->failure;
        if (!is_usable(description.target, batch_) || !is_usable(description.golden, batch_)) {
            failure = {OD_BAD_JOB, 0};
        } else {
            const void *target = data(description.target, task->target, 0);
            const void *golden = data(description.golden, task->golden, 1);
            if (failure.status == OD_DONE && !prepare(job, target, golden, task->pair))
                failure = {OD_BAD_JOB, 0};
        }
        if (failure.status != OD_DONE)
            fail(job, failure, task->failed_side);
        lock.lock();
        if (failure.status == OD_DONE && task->pair.units() > 0) {
            list_parts(task);
            return;
        }
        if (failure.status == OD_DONE)
            finish(task->pair, task->sums, task->second, batch_.results[job]);
        close(*task);
    }

    void list_parts(const std::shared_ptr<Task> &task) {
        task->left = task->pair.units();
        for (int64_t unit = 0; unit < task->left; ++unit)
            parts_.push_back({task, unit});
        changed_.notify_all();
    }

    void close(const Task &task) {
        --open_;
        report(declared_bytes(batch_.jobs[task.job]) - reported(task));
        changed_.notify_all();
    }

    // Progress is reported by parts: bytes per part, and bytes reported for a pair so far.
    int64_t share(const Task &task) const {
        return declared_bytes(batch_.jobs[task.job]) / task.pair.units() / (task.pair.has_second() ? 2 : 1);
    }
    int64_t reported(const Task &task) const {
        if (task.pair.units() == 0)
            return 0;
        return share(task) * task.pair.units() * (task.in_second && task.pair.has_second() ? 2 : 1);
    }

    void measure_part(Worker &worker, Part &part) {
        Task &task = *part.task;
        struct Work {
            Worker &worker;
            Task &task;
            int64_t unit;
            std::unique_ptr<Sums> sums;
            std::unique_ptr<SecondPass> second;
        } work{worker, task, part.unit, nullptr, nullptr};
        if (task.in_second) {
            work.second = std::make_unique<SecondPass>(task.second.empty());
        } else {
            work.sums = std::make_unique<Sums>();
        }
        const void *fault_address = guarded(
            [](void *argument) {
                const Work &part_work = *static_cast<Work *>(argument);
                if (part_work.sums)
                    part_work.worker.first_pass(part_work.task.pair, part_work.unit, *part_work.sums);
                else
                    part_work.worker.second_pass(part_work.task.pair, part_work.unit, *part_work.second);
            },
            &work);
        report(share(task));
        const std::lock_guard<std::mutex> lock(lock_);
        if (fault_address) {
            task.failure = {OD_TOO_SHORT, -1};
            task.failed_side = task.golden.holds(fault_address) ? 1 : 0;
        } else if (work.sums) {
            task.sums.merge(*work.sums, task.pair.target.kind, task.pair.golden.kind);
        } else {
            task.second.merge(*work.second);
        }
        release_behind(task);
        if (--task.left == 0)
            next_pass(part.task);
    }

    // Keeps the resident memory of a very large pair below the limit.
    void release_behind(Task &task) {
        if (declared_bytes(batch_.jobs[task.job]) / kWholePairFactor <= batch_.resident)
            return;
        const auto touched = [&](const Side &side) {
            // Whole pages are loaded for a few elements.
            return side.size * (task.pair.count / task.pair.units()) * (side.view.scattered() ? kScatterFactor : 1);
        };
        task.touched += touched(task.pair.target) + touched(task.pair.golden);
        if (task.touched < batch_.resident)
            return;
        task.touched = 0;
        task.target.release();
        task.golden.release();
    }

    void next_pass(const std::shared_ptr<Task> &task) {
        if (task->failure.status != OD_DONE) {
            fail(task->job, task->failure, task->failed_side);
            close(*task);
            return;
        }
        if (!task->in_second) {
            task->second = plan_second_pass(task->pair, task->sums);
            if (task->second.is_needed()) {
                task->in_second = true;
                list_parts(task);
                return;
            }
        }
        finish(task->pair, task->sums, task->second, batch_.results[task->job]);
        close(*task);
    }

    void measure_small(Worker &worker, size_t job, Buffer &target_buffer, Buffer &golden_buffer) {
        if (cancelled())
            return;
        const od_job &description = batch_.jobs[job];
        report(declared_bytes(description));
        if (!is_usable(description.target, batch_) || !is_usable(description.golden, batch_))
            return fail(job, {OD_BAD_JOB, 0});
        const void *data[2];
        const od_side *sides[2] = {&description.target, &description.golden};
        Buffer *buffers[2] = {&target_buffer, &golden_buffer};
        for (int i = 0; i < 2; ++i) {
            const od_side &side = *sides[i];
            data[i] = reinterpret_cast<const void *>(side.data);
            if (side.path < 0)
                continue;
            unsigned char *memory = buffers[i]->reserve(static_cast<size_t>(side.nbytes));
            if (!memory)
                return fail(job, {OD_NO_MEMORY, 0}, i);
            const Failure failure = read_all(path(side), side.offset, side.nbytes, memory);
            if (failure.status != OD_DONE)
                return fail(job, failure, i);
            data[i] = memory;
        }
        Pair pair;
        if (!prepare(job, data[0], data[1], pair))
            return fail(job, {OD_BAD_JOB, 0});
        Sums sums;
        for (int64_t unit = 0; unit < pair.units(); ++unit)
            worker.first_pass(pair, unit, sums);
        SecondPass second = plan_second_pass(pair, sums);
        for (int64_t unit = 0; second.is_needed() && unit < pair.units(); ++unit)
            worker.second_pass(pair, unit, second);
        finish(pair, sums, second, batch_.results[job]);
    }

    od_batch &batch_;
    std::vector<size_t> large_, small_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<Part> parts_;
    size_t next_large_ = 0, next_small_ = 0;
    int open_ = 0;
    std::atomic<bool> out_of_memory_{false};
};

}  // namespace

bool measure_batch(od_batch &batch) { return Batch(batch).run(); }

}  // namespace opdiff
