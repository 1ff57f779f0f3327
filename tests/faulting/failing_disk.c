/* A disk that fails on command, for tests: loaded before libc into any program (LD_PRELOAD).
 *
 * Counts the calls that change files below FAILING_DISK_FOLDER, and lets some of them fail as the
 * control block in the file FAILING_DISK_CONTROL says, which the test maps too (disk.py). A call
 * fails with an errno, writes half, or ends the process as kill -9 does, before or after its work.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

struct control {
    int64_t calls;   /* so far, of all classes */
    int64_t fault;   /* one of the faults below */
    int64_t skip;    /* calls of the classes that yet go well */
    int64_t times;   /* calls that are yet to fail */
    int64_t classes; /* bits of the classes that fail */
    int64_t fired;   /* calls that failed */
};
enum { NONE, NO_SPACE, IO_ERROR, HALF, KILL_BEFORE, KILL_HALF, KILL_AFTER };
enum { WRITES = 1, SIZES = 2, SYNCS = 4, NAMES = 8, REMOVALS = 16 };

static struct control *control;
static const char *folder;
static size_t folder_length;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAILING_DISK_CONTROL");
    folder = getenv("FAILING_DISK_FOLDER");
    if (!path || !folder) return;
    folder_length = strlen(folder);
    int fd = REAL(open)(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *block = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (block != MAP_FAILED) control = block;
    close(fd);
}

static void end(void) { kill(getpid(), SIGKILL); pause(); }

static int below(const char *path) {
    return control && path && strncmp(path, folder, folder_length) == 0;
}

static int is_ours(int fd) {
    char link[64], path[PATH_MAX];
    if (!control) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return below(path);
}

/* Count a call; the fault that it meets. Ends the process, or sets errno, where it must. */
static int meets(int class) {
    __atomic_fetch_add(&control->calls, 1, __ATOMIC_SEQ_CST);
    int fault = (int)control->fault;
    if (fault == NONE || !(control->classes & class)) return NONE;
    if (__atomic_fetch_sub(&control->skip, 1, __ATOMIC_SEQ_CST) > 0) return NONE;
    if (__atomic_fetch_sub(&control->times, 1, __ATOMIC_SEQ_CST) <= 0) return NONE;
    __atomic_fetch_add(&control->fired, 1, __ATOMIC_SEQ_CST);
    if (fault == KILL_BEFORE) end();
    if ((fault == HALF || fault == KILL_HALF) && class != WRITES) fault = NO_SPACE;
    errno = fault == IO_ERROR ? EIO : ENOSPC;
    return fault;
}

#define CHANGE(ours, class, type, failed, call)           \
    int fault = (ours) ? meets(class) : NONE;             \
    if (fault != NONE && fault != KILL_AFTER) return failed; \
    type result = call;                                   \
    if (fault == KILL_AFTER) end();                       \
    return result;

#define WRITE(half, whole)                                \
    int fault = is_ours(fd) ? meets(WRITES) : NONE;       \
    if (fault == NO_SPACE || fault == IO_ERROR) return -1; \
    ssize_t result = fault == HALF || fault == KILL_HALF ? half : whole; \
    if (fault == KILL_HALF || fault == KILL_AFTER) end(); \
    return result;

ssize_t write(int fd, const void *data, size_t size) {
    WRITE(REAL(write)(fd, data, size / 2), REAL(write)(fd, data, size))
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    WRITE(REAL(pwrite)(fd, data, size / 2, at), REAL(pwrite)(fd, data, size, at))
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    WRITE(REAL(pwrite64)(fd, data, size / 2, at), REAL(pwrite64)(fd, data, size, at))
}
ssize_t sendfile(int fd, int from, off_t *at, size_t size) {
    WRITE(REAL(sendfile)(fd, from, at, size / 2), REAL(sendfile)(fd, from, at, size))
}
ssize_t sendfile64(int fd, int from, off64_t *at, size_t size) {
    WRITE(REAL(sendfile64)(fd, from, at, size / 2), REAL(sendfile64)(fd, from, at, size))
}
int ftruncate(int fd, off_t size) {
    CHANGE(is_ours(fd), SIZES, int, -1, REAL(ftruncate)(fd, size))
}
int ftruncate64(int fd, off64_t size) {
    CHANGE(is_ours(fd), SIZES, int, -1, REAL(ftruncate64)(fd, size))
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
    CHANGE(is_ours(fd), SIZES, int, errno, REAL(posix_fallocate64)(fd, at, size))
}
int fsync(int fd) { CHANGE(is_ours(fd), SYNCS, int, -1, REAL(fsync)(fd)) }
int fdatasync(int fd) { CHANGE(is_ours(fd), SYNCS, int, -1, REAL(fdatasync)(fd)) }
int rename(const char *from, const char *to) {
    CHANGE(below(to), NAMES, int, -1, REAL(rename)(from, to))
}
int link(const char *from, const char *to) {
    CHANGE(below(to), NAMES, int, -1, REAL(link)(from, to))
}
int mkdir(const char *path, mode_t mode) {
    CHANGE(below(path), NAMES, int, -1, REAL(mkdir)(path, mode))
}
int unlink(const char *path) { CHANGE(below(path), REMOVALS, int, -1, REAL(unlink)(path)) }

#define OPEN(name)                                                    \
    int name(const char *path, int flags, ...) {                      \
        mode_t mode = 0;                                              \
        if (flags & (O_CREAT | O_TMPFILE)) {                          \
            va_list more;                                             \
            va_start(more, flags);                                    \
            mode = va_arg(more, mode_t);                              \
            va_end(more);                                             \
        }                                                             \
        int makes = (flags & O_CREAT) && access(path, F_OK) != 0;     \
        CHANGE(makes && below(path), NAMES, int, -1, REAL(name)(path, flags, mode)) \
    }
OPEN(open)
OPEN(open64)
