/* Loads the library and marks under a filter that kills for every call which is not on its list:
 *   filtered LIBRARY before   the library is loaded before the filter, and marks nothing until then
 *   filtered LIBRARY fork     the same, and a forked child marks as well
 *   filtered LIBRARY thread   the same, and another thread marks, which is there before
 *   filtered LIBRARY after    it is loaded after the filter, which allows what a loader needs
 * Ends with 0 if it got that far. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t (*request_call)(const char *, size_t, uint64_t, uint64_t);
typedef void (*end_call)(uint64_t);
typedef size_t (*header_call)(uint64_t, char *, size_t);
static request_call request;
static end_call end;
static header_call header;

static int load(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) return 1;
    *(void **)&request = dlsym(library, "guestscope_request");
    *(void **)&end = dlsym(library, "guestscope_end");
    *(void **)&header = dlsym(library, "guestscope_traceparent");
    return !request || !end || !header;
}

static void marks(void) {
    for (uint64_t number = 1; number <= 10; number++) {
        char text[64];
        uint64_t token = request("request", 7, number, 0);
        if (header(token, text, sizeof text) != 55) _exit(9);
        text[55] = '\n';
        if (write(1, text, 56) != 56) _exit(8);
        end(token);
    }
}

static int there, go, done;

static void *other(void *nothing) {
    __atomic_store_n(&there, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE));
    marks();
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    while (1);
    return nothing;
}

static int filter(const int *allowed, size_t count, unsigned flags) {
    struct sock_filter lines[128];
    size_t at = 0;
    lines[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t one = 0; one < count; one++) {
        lines[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[one], 0, 1);
        lines[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    lines[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {(unsigned short)at, lines};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0;
}

int main(int count, char **words) {
    const int few[] = {SYS_write, SYS_exit_group};
    /* What a thread's copy of a library's variables takes: that is the C library's. */
    const int threaded[] = {SYS_write, SYS_exit_group, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_brk};
    const int forking[] = {SYS_write, SYS_exit_group, SYS_clone, SYS_wait4};
    const int loading[] = {SYS_write, SYS_exit_group, SYS_openat, SYS_read, SYS_pread64, SYS_fstat, SYS_newfstatat,
                           SYS_mmap, SYS_mprotect, SYS_munmap, SYS_close, SYS_brk, SYS_lseek, SYS_getcwd};
    if (count < 3) return 2;
    const char *how = words[2];
    void *volatile memory = malloc(64);
    free(memory);
    if (!strcmp(how, "after")) {
        if (filter(loading, sizeof loading / sizeof *loading, 0)) return 77;
        if (load(words[1])) _exit(3);
        marks();
        _exit(0);
    }
    if (load(words[1])) return 3;
    pthread_t thread;
    if (!strcmp(how, "thread") && pthread_create(&thread, NULL, other, NULL)) return 4;
    int is_fork = !strcmp(how, "fork"), is_thread = !strcmp(how, "thread");
    while (is_thread && !__atomic_load_n(&there, __ATOMIC_ACQUIRE));
    const int *allowed = is_fork ? forking : is_thread ? threaded : few;
    if (filter(allowed, is_fork ? 4 : is_thread ? 6 : 2, SECCOMP_FILTER_FLAG_TSYNC)) return 77;
    marks();
    if (is_fork) {
        for (int child = 0; child < 2; child++) {
            int status = 1;
            long number = syscall(SYS_clone, 17, 0, 0, 0, 0);
            if (number == 0) {
                marks();
                _exit(0);
            }
            if (syscall(SYS_wait4, number, &status, 0, 0) != number || status) _exit(5);
        }
    }
    if (!strcmp(how, "thread")) {
        __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE));
    }
    _exit(0);
}
