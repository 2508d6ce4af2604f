/* A library that hands out its functions in tables, and one that follows the contract of Triton's backends by name; with PROGRAM, the
   program that calls either: `tables LIBRARY NOTE CALLS [triton]`. It says NOTE.ready, and begins when there is
   NOTE.go. */
#include <stdint.h>
#ifndef PROGRAM

struct api { long (*first)(long), (*second)(long), (*work)(long); const char *behind; };
struct base { const struct api *(*get)(uint32_t); long (*version)(long); };

static long first(long number) { return number + 1; }
static long second(long number) { return number + 2; }
static long work(long number) {
    volatile long sum = 0;
    for (int at = 0; at < 1000; at++) sum += number;
    return sum;
}
static const struct api table = {first, second, work, "no function"};
static const struct api *get(uint32_t version) { return version >= 1 && version <= 9 ? &table : 0; }
static const struct base start = {get, first};
const struct base *api(void) { return &start; }

static volatile long state;
void *TRITONBACKEND_ModelInstanceInitialize(void *instance) { state += work(1); return (void *)(state ? 0 : instance); }
void *TRITONBACKEND_ModelInstanceExecute(void *instance, void **requests, uint32_t count) {
    state += work(count);
    return state && requests ? 0 : instance;
}

#else
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct api { long (*functions[3])(long); };
struct base { const struct api *(*get)(uint32_t); long (*version)(long); };

int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW), *requests[1] = {0};
    if (!library) return 1;
    char path[4096];
    snprintf(path, sizeof path, "%s.ready", words[2]);
    fclose(fopen(path, "w"));
    snprintf(path, sizeof path, "%s.go", words[2]);
    while (access(path, F_OK)) usleep(10000);
    long calls = atol(words[3]);
    if (count > 4) {
        void *(*load)(void *) = (void *(*)(void *))dlsym(library, "TRITONBACKEND_ModelInstanceInitialize");
        void *(*execute)(void *, void **, uint32_t) =
            (void *(*)(void *, void **, uint32_t))dlsym(library, "TRITONBACKEND_ModelInstanceExecute");
        load(requests);
        for (long at = 0; at < calls; at++) execute(requests, requests, 1);
        return 0;
    }
    const struct api *api = ((const struct base *(*)(void))dlsym(library, "api"))()->get(1);
    for (long at = 0; at < calls; at++) api->functions[2](at);
    return 0;
}
#endif
