/* A preloaded library that makes the n-th call of one kind fail, in the processes that ask for it.
 *
 * arm(kind, n, lasting, root, report) is called by the process under test, after its modules are imported. Calls on files
 * count if their path is below `root`; allocations count if they are large. When a call fails, a byte is written to the
 * descriptor `report`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* In the order of `Kind` in calls.py. */
enum kind { NONE, OPEN, READ, WRITE, SYNC, RENAME, UNLINK, MMAP, ALLOC, SEMAPHORE };
static const int error_of[] = {0, EMFILE, EIO, ENOSPC, EIO, ENOSPC, EIO, ENOMEM, ENOMEM, ENOSPC};

/* The interpreter makes many smaller allocations for its own objects; it takes them from arenas. */
enum { MIN_ALLOCATION = 1 << 12 };

static enum kind armed = NONE;
static atomic_long left;
static int is_lasting;
static int report;
static char root[PATH_MAX];

void arm(int kind, long n, int lasting, const char *folder, int descriptor) {
    snprintf(root, sizeof root, "%s/", folder);
    is_lasting = lasting;
    report = descriptor;
    left = n;
    armed = kind;
}

static int fails(enum kind kind) {
    if (kind != armed) return 0;
    const long now = atomic_fetch_sub(&left, 1);
    if (now > 1 || (now < 1 && !is_lasting)) return 0;
    if (now == 1) (void)!syscall(SYS_write, report, "x", 1);
    errno = error_of[kind];
    return 1;
}

static int is_below_root(const char *path) { return strncmp(path, root, strlen(root)) == 0; }

static int path_fails(enum kind kind, int folder, const char *path) {
    if (kind != armed) return 0;
    char full[2 * PATH_MAX], name[64];
    if (path[0] == '/') return is_below_root(path) && fails(kind);
    ssize_t length;
    snprintf(name, sizeof name, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    length = readlink(name, full, PATH_MAX - 1);
    if (length < 0) return 0;
    snprintf(full + length, PATH_MAX, "/%s", path);
    return is_below_root(full) && fails(kind);
}

static int file_fails(enum kind kind, int descriptor) {
    if (kind != armed) return 0;
    char name[64], full[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    const ssize_t length = readlink(name, full, sizeof full - 1);
    if (length < 0) return 0;
    full[length] = 0;
    return is_below_root(full) && fails(kind);
}

#define NEXT(type, name, ...) \
    static type (*next)(__VA_ARGS__); \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, name)

#define OPEN_CALL(name) \
    int name(const char *path, int flags, ...) { \
        NEXT(int, #name, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        const mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        return path_fails(OPEN, AT_FDCWD, path) ? -1 : next(path, flags, mode); \
    }
OPEN_CALL(open)
OPEN_CALL(open64)

#define OPENAT_CALL(name) \
    int name(int folder, const char *path, int flags, ...) { \
        NEXT(int, #name, int, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        const mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        return path_fails(OPEN, folder, path) ? -1 : next(folder, path, flags, mode); \
    }
OPENAT_CALL(openat)
OPENAT_CALL(openat64)

#define FILE_CALL(kind, type, name, parameters, arguments, ...) \
    type name parameters { \
        NEXT(type, #name, __VA_ARGS__); \
        return file_fails(kind, file) ? (type)-1 : next arguments; \
    }
FILE_CALL(READ, ssize_t, read, (int file, void *data, size_t size), (file, data, size), int, void *, size_t)
FILE_CALL(READ, ssize_t, pread, (int file, void *data, size_t size, off_t at), (file, data, size, at), int, void *, size_t, off_t)
FILE_CALL(READ, ssize_t, pread64, (int file, void *data, size_t size, off_t at), (file, data, size, at), int, void *, size_t, off_t)
FILE_CALL(WRITE, ssize_t, write, (int file, const void *data, size_t size), (file, data, size), int, const void *, size_t)
FILE_CALL(WRITE, ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at), int, const void *, size_t, off_t)
FILE_CALL(WRITE, ssize_t, pwrite64, (int file, const void *data, size_t size, off_t at), (file, data, size, at), int, const void *, size_t, off_t)
FILE_CALL(WRITE, ssize_t, sendfile, (int file, int source, off_t *at, size_t size), (file, source, at, size), int, int, off_t *, size_t)
FILE_CALL(WRITE, ssize_t, sendfile64, (int file, int source, off_t *at, size_t size), (file, source, at, size), int, int, off_t *, size_t)
FILE_CALL(WRITE, int, ftruncate, (int file, off_t size), (file, size), int, off_t)
FILE_CALL(WRITE, int, ftruncate64, (int file, off_t size), (file, size), int, off_t)
FILE_CALL(SYNC, int, fsync, (int file), (file), int)
FILE_CALL(SYNC, int, fdatasync, (int file), (file), int)

ssize_t copy_file_range(int source, off_t *from, int file, off_t *to, size_t size, unsigned flags) {
    NEXT(ssize_t, "copy_file_range", int, off_t *, int, off_t *, size_t, unsigned);
    return file_fails(WRITE, file) ? -1 : next(source, from, file, to, size, flags);
}

#define PATH_CALL(kind, name, folder, path, parameters, arguments, ...) \
    int name parameters { \
        NEXT(int, #name, __VA_ARGS__); \
        return path_fails(kind, folder, path) ? -1 : next arguments; \
    }
PATH_CALL(RENAME, rename, AT_FDCWD, new, (const char *old, const char *new), (old, new), const char *, const char *)
PATH_CALL(RENAME, renameat, to, new, (int from, const char *old, int to, const char *new), (from, old, to, new), int, const char *, int, const char *)
PATH_CALL(RENAME, renameat2, to, new, (int from, const char *old, int to, const char *new, unsigned flags), (from, old, to, new, flags), int, const char *, int, const char *, unsigned)
PATH_CALL(RENAME, link, AT_FDCWD, new, (const char *old, const char *new), (old, new), const char *, const char *)
PATH_CALL(RENAME, linkat, to, new, (int from, const char *old, int to, const char *new, int flags), (from, old, to, new, flags), int, const char *, int, const char *, int)
PATH_CALL(UNLINK, unlink, AT_FDCWD, path, (const char *path), (path), const char *)
PATH_CALL(UNLINK, unlinkat, folder, path, (int folder, const char *path, int flags), (folder, path, flags), int, const char *, int)

#define MMAP_CALL(name) \
    void *name(void *wanted, size_t size, int protection, int flags, int file, off_t at) { \
        NEXT(void *, #name, void *, size_t, int, int, int, off_t); \
        const int is_file = file >= 0 && !(flags & MAP_ANONYMOUS); \
        return is_file && file_fails(MMAP, file) ? MAP_FAILED : next(wanted, size, protection, flags, file, at); \
    }
MMAP_CALL(mmap)
MMAP_CALL(mmap64)

/* The allocator of glibc has these names, too; dlsym itself allocates. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t size) { return size >= MIN_ALLOCATION && fails(ALLOC) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) {
    return count && size >= MIN_ALLOCATION / count && fails(ALLOC) ? NULL : __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
    return size >= MIN_ALLOCATION && fails(ALLOC) ? NULL : __libc_realloc(old, size);
}

sem_t *sem_open(const char *name, int flags, ...) {
    NEXT(sem_t *, "sem_open", const char *, int, ...);
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    const unsigned value = va_arg(rest, unsigned);
    va_end(rest);
    return fails(SEMAPHORE) ? SEM_FAILED : next(name, flags, mode, value);
}
