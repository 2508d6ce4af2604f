/* Calls ONNX Runtime's C API as a program without its header does: `ort LIBRARY MODEL NOTE RUNS THREADS`. The model has an input `x`
   and an output `y` of 8 floats. It says NOTE.ready, and begins when there is NOTE.go. Each line of its output is a call of Run: when it
   began and ended, on CLOCK_MONOTONIC, its number and its thread. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Places in the table, which never change. */
enum { MESSAGE = 2, ENV = 3, SESSION = 7, RUN = 9, OPTIONS = 10, THREADS_WITHIN = 24, TENSOR = 49, DATA = 51, MEMORY = 69 };
enum { VERSION = 1, FLOATS = 1, VALUES = 8, MOST = 100000 };

typedef void *(*Call)();
struct base { const Call *(*get)(uint32_t); const char *(*version)(void); };

static const Call *api;
static void *session, *memory;
static int runs;

static void check(void *status) {
    if (status) {
        fprintf(stderr, "ort: %s\n", (const char *)api[MESSAGE](status));
        exit(1);
    }
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *infer(void *unused) {
    float input[VALUES] = {1, 2, 3}, *output;
    int64_t shape[] = {VALUES};
    const char *names[] = {"x"}, *results[] = {"y"};
    uint64_t (*times)[2] = calloc(MOST, sizeof *times);
    void *x = NULL;
    check(api[TENSOR](memory, input, sizeof input, shape, (size_t)1, FLOATS, &x));
    for (int at = 0; at < runs; at++) {
        void *y = NULL;
        times[at][0] = now();
        void *status = api[RUN](session, NULL, names, &x, (size_t)1, results, (size_t)1, &y);
        times[at][1] = now();
        check(status);
        check(api[DATA](y, &output));
        if (output[2] != 6) exit(2);
    }
    for (int at = 0; at < runs; at++)
        printf("%llu %llu %d %ld\n", (unsigned long long)times[at][0], (unsigned long long)times[at][1], at + 1, syscall(SYS_gettid));
    return unused;
}

int main(int count, char **words) {
    char path[4096];
    pthread_t threads[16];
    if (count != 6) return 3;
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "ort: %s\n", dlerror());
        return 4;
    }
    snprintf(path, sizeof path, "%s.ready", words[3]);
    fclose(fopen(path, "w"));
    snprintf(path, sizeof path, "%s.go", words[3]);
    while (access(path, F_OK)) usleep(10000);
    const struct base *base = ((const struct base *(*)(void))dlsym(library, "OrtGetApiBase"))();
    void *env = NULL, *options = NULL;
    api = base->get(VERSION);
    runs = atoi(words[4]);
    check(api[ENV](3, "test", &env));
    check(api[OPTIONS](&options));
    check(api[THREADS_WITHIN](options, 1));
    check(api[SESSION](env, words[2], options, &session));
    check(api[MEMORY](0, 0, &memory));
    int others = atoi(words[5]);
    for (int at = 0; at < others; at++) pthread_create(&threads[at], NULL, infer, NULL);
    for (int at = 0; at < others; at++) pthread_join(threads[at], NULL);
    if (!others) infer(NULL);
    return 0;
}
