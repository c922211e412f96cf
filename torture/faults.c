/* Faults at chosen system calls of a process and of its children: build with `cc -shared -fPIC`, load with LD_PRELOAD.
 *
 * The file named by the variable TORTURE_FAULT has seven lines: an id, a folder, an operation, a glob pattern, a
 * number, an action and a marker. It is read at every call, so that a process that runs can get another fault. The
 * action is taken at the call with this number whose operation is this one and whose file, relative to the folder,
 * matches the pattern. The marker is a file that is created at that moment; a fault whose marker exists is not taken
 * again by any process. The action "trace" appends the operation and the file of every call to the marker instead.
 *
 * Calls go through libc here. Stores to memory-mapped files and system calls made without libc are not seen.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { NONE, KILL_BEFORE, KILL_HALF, KILL_AFTER, FULL, SHORT, FAIL };

enum { ID, ROOT, OPERATION, PATTERN, NUMBER, ACTION, MARKER, LINES };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char current[64];
static long matched;
static int is_full;

/* Raw system calls, so that nothing here comes back to the functions below. */
static int raw_open(const char *path, int flags) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0666);
}

static void raw_close(int fd) { syscall(SYS_close, fd); }

static int read_lines(char *text, size_t size, char *lines[LINES]) {
    const char *path = getenv("TORTURE_FAULT");
    if (path == NULL) return 0;
    int fd = raw_open(path, O_RDONLY);
    if (fd < 0) return 0;
    ssize_t length = syscall(SYS_read, fd, text, size - 1);
    raw_close(fd);
    if (length <= 0) return 0;
    text[length] = 0;
    char *rest = text;
    for (int number = 0; number < LINES; number++) {
        char *end = strchr(rest, '\n');
        if (end == NULL) return 0;
        *end = 0;
        lines[number] = rest;
        rest = end + 1;
    }
    return 1;
}

static enum action action_of(const char *name) {
    static const char *names[] = {"", "kill before", "kill half", "kill after", "full", "short", "fail"};
    for (int number = 1; number < 7; number++)
        if (!strcmp(name, names[number])) return (enum action)number;
    return NONE;
}

static enum action decide(const char *operation, const char *path) {
    char text[3 * PATH_MAX], *lines[LINES];
    if (path[0] != '/' || !read_lines(text, sizeof text, lines)) return NONE;
    size_t root = strlen(lines[ROOT]);
    if (strncmp(path, lines[ROOT], root) || path[root] != '/') return NONE;
    const char *file = path + root + 1;
    if (!strcmp(lines[ACTION], "trace")) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%s\t%s\n", operation, file);
        int fd = raw_open(lines[MARKER], O_WRONLY | O_APPEND | O_CREAT);
        syscall(SYS_write, fd, line, length);
        raw_close(fd);
        return NONE;
    }
    enum action found = NONE;
    pthread_mutex_lock(&lock);
    if (strcmp(current, lines[ID])) {
        snprintf(current, sizeof current, "%s", lines[ID]);
        matched = is_full = 0;
    }
    if (is_full) {
        found = !strcmp(operation, "write") || !strcmp(operation, "copy") ? FULL : NONE;
    } else if (!strcmp(operation, lines[OPERATION]) && !fnmatch(lines[PATTERN], file, 0)
               && ++matched == atol(lines[NUMBER])) {
        int fd = raw_open(lines[MARKER], O_WRONLY | O_CREAT | O_EXCL);
        if (fd >= 0) {
            raw_close(fd);
            found = action_of(lines[ACTION]);
            is_full = found == FULL;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

static enum action decide_fd(const char *operation, int fd) {
    char path[PATH_MAX];
    int before = errno;
    path_of(fd, path);
    enum action found = decide(operation, path);
    errno = before;
    return found;
}

static enum action decide_at(const char *operation, int folder, const char *name) {
    char path[2 * PATH_MAX];
    int before = errno;
    if (name[0] == '/') {
        snprintf(path, sizeof path, "%s", name);
    } else {
        if (folder == AT_FDCWD) {
            path[0] = 0;
            if (syscall(SYS_getcwd, path, PATH_MAX) < 0) path[0] = 0;
        } else {
            path_of(folder, path);
        }
        size_t length = strlen(path);
        snprintf(path + length, sizeof path - length, "/%s", name);
    }
    enum action found = decide(operation, path);
    errno = before;
    return found;
}

static enum action decide_address(const char *operation, const void *address) {
    char path[PATH_MAX] = "", line[PATH_MAX + 128], name[PATH_MAX];
    int before = errno;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        name[0] = 0;
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %4095[^\n]", &start, &end, name) >= 2
            && start <= (unsigned long)address && (unsigned long)address < end) {
            snprintf(path, sizeof path, "%s", name);
            break;
        }
    }
    if (maps != NULL) fclose(maps);
    enum action found = decide(operation, path);
    errno = before;
    return found;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int fail(int number) {
    errno = number;
    return -1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (real == NULL) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* `call` uses `n`, the number of bytes. */
#define TRANSFER(found, count, call) \
    do { \
        size_t n = (count); \
        switch (found) { \
        case KILL_BEFORE: die(); break; \
        case KILL_HALF: n = n / 2; if (n) { ssize_t ignored = call; (void)ignored; } die(); break; \
        case KILL_AFTER: { ssize_t ignored = call; (void)ignored; } die(); break; \
        case FULL: return fail(ENOSPC); \
        case FAIL: return fail(EIO); \
        case SHORT: n = n > 1 ? n / 2 : n; break; \
        default: break; \
        } \
        return call; \
    } while (0)

#define WHOLE(found, call) \
    do { \
        switch (found) { \
        case KILL_BEFORE: die(); break; \
        case KILL_HALF: case KILL_AFTER: { int ignored = call; (void)ignored; } die(); break; \
        case FULL: return fail(ENOSPC); \
        case FAIL: return fail(EIO); \
        default: break; \
        } \
        return call; \
    } while (0)

ssize_t write(int fd, const void *buffer, size_t count) {
    REAL(write);
    TRANSFER(decide_fd("write", fd), count, real(fd, buffer, n));
}

ssize_t pwrite(int fd, const void *buffer, size_t count, off_t offset) {
    REAL(pwrite);
    TRANSFER(decide_fd("write", fd), count, real(fd, buffer, n, offset));
}

ssize_t pwrite64(int fd, const void *buffer, size_t count, off64_t offset) {
    REAL(pwrite64);
    TRANSFER(decide_fd("write", fd), count, real(fd, buffer, n, offset));
}

/* Several buffers are written as one: half of them, or all. */
ssize_t writev(int fd, const struct iovec *buffers, int count) {
    REAL(writev);
    TRANSFER(decide_fd("write", fd), (size_t)count, real(fd, buffers, (int)n));
}

ssize_t sendfile(int out, int in, off_t *offset, size_t count) {
    REAL(sendfile);
    TRANSFER(decide_fd("copy", out), count, real(out, in, offset, n));
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) {
    REAL(sendfile64);
    TRANSFER(decide_fd("copy", out), count, real(out, in, offset, n));
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t count, unsigned flags) {
    REAL(copy_file_range);
    TRANSFER(decide_fd("copy", out), count, real(in, from, out, to, n, flags));
}

int fsync(int fd) {
    REAL(fsync);
    WHOLE(decide_fd("sync", fd), real(fd));
}

int fdatasync(int fd) {
    REAL(fdatasync);
    WHOLE(decide_fd("sync", fd), real(fd));
}

int msync(void *address, size_t length, int flags) {
    REAL(msync);
    WHOLE(decide_address("sync", address), real(address, length, flags));
}

int rename(const char *old, const char *new) {
    REAL(rename);
    WHOLE(decide_at("rename", AT_FDCWD, new), real(old, new));
}

int renameat(int from, const char *old, int to, const char *new) {
    REAL(renameat);
    WHOLE(decide_at("rename", to, new), real(from, old, to, new));
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    REAL(renameat2);
    WHOLE(decide_at("rename", to, new), real(from, old, to, new, flags));
}

int unlink(const char *path) {
    REAL(unlink);
    WHOLE(decide_at("remove", AT_FDCWD, path), real(path));
}

int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat);
    WHOLE(decide_at("remove", folder, path), real(folder, path, flags));
}

int rmdir(const char *path) {
    REAL(rmdir);
    WHOLE(decide_at("remove", AT_FDCWD, path), real(path));
}

int ftruncate(int fd, off_t length) {
    REAL(ftruncate);
    WHOLE(decide_fd("truncate", fd), real(fd, length));
}

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    WHOLE(decide_fd("truncate", fd), real(fd, length));
}

#define OPEN(name, ...) \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest); \
    REAL(name)

int open(const char *path, int flags, ...) {
    OPEN(open);
    WHOLE(decide_at("open", AT_FDCWD, path), real(path, flags, mode));
}

int open64(const char *path, int flags, ...) {
    OPEN(open64);
    WHOLE(decide_at("open", AT_FDCWD, path), real(path, flags, mode));
}

int openat(int folder, const char *path, int flags, ...) {
    OPEN(openat);
    WHOLE(decide_at("open", folder, path), real(folder, path, flags, mode));
}

int openat64(int folder, const char *path, int flags, ...) {
    OPEN(openat64);
    WHOLE(decide_at("open", folder, path), real(folder, path, flags, mode));
}
