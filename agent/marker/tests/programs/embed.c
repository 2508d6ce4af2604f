/*
 * Runs requests that two threads pass to and fro; README.md says what they do and print. It uses every function of
 * guestscope.h, and shows how a program with its own scheduling loop leaves and enters phases.
 */
#define _POSIX_C_SOURCE 200809L
#include <guestscope.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_REQUESTS = 10000, THREADS = 2, PHASES = 3 };

static const char *const phase_names[PHASES] = {"prepare", "fetch", "finish"};

struct request {
    uint64_t number, token, phase;
    int step;        /* 0 prepare, 1 fetched, 2 finish; -1 done */
    int thread;      /* whose turn it is */
    uint64_t due_ns; /* not before */
    uint64_t begin_ns, queued_ns;
    uint64_t busy_ns[PHASES], await_ns[PHASES];
    int joined;
    char header[64];
};

static struct request requests[MAX_REQUESTS];
static uint64_t count = 4, work_ns = 10000000, await_ns = 40000000, start_ns;
static uint64_t remaining;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t clock_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Burns that much CPU time of this thread and returns how much it was. */
static uint64_t work(uint64_t duration_ns) {
    uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID), now = start;
    while (now - start < duration_ns)
        now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return now - start;
}

static uint64_t begin(const char *name) {
    return guestscope_begin(name, strlen(name), 0);
}

/* The next phase begins: of every second request at the same instant at which the one before ends. */
static void follow(struct request *request, const char *name) {
    if (request->joined) {
        guestscope_end(request->phase);
        request->phase = begin(name);
    } else {
        request->phase = guestscope_next(request->phase, name, strlen(name));
    }
}

static void suspend(struct request *request, uint64_t duration_ns) {
    guestscope_leave(request->phase);
    guestscope_leave(request->token);
    request->due_ns = clock_ns(CLOCK_MONOTONIC) + duration_ns;
}

static void resume(struct request *request) {
    guestscope_enter(request->token);
    guestscope_enter(request->phase);
}

static void first_step(struct request *request) {
    static const uint8_t trace_id[16] = {0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6,
                                         0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36};
    static const uint8_t parent_span_id[8] = {0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7};
    request->begin_ns = clock_ns(CLOCK_MONOTONIC);
    request->queued_ns = request->begin_ns - start_ns;
    request->token = guestscope_request("request", 7, request->number, start_ns);
    guestscope_mark("started", 7);
    request->joined = request->number % 2 == 0;
    if (request->joined)
        guestscope_context(request->token, trace_id, parent_span_id);
    if (guestscope_traceparent(request->token, request->header, sizeof request->header) != 55)
        abort();
    request->phase = request->joined ? begin("prepare") : guestscope_first(request->token, "prepare", 7);
    request->busy_ns[0] = work(work_ns);
    follow(request, "fetch");
    request->await_ns[1] = await_ns;
    suspend(request, await_ns);
}

static void second_step(struct request *request) {
    resume(request);
    follow(request, "finish");
    request->busy_ns[2] = work(work_ns / 2);
    request->await_ns[2] = await_ns / 2;
    suspend(request, await_ns / 2);
}

static void last_step(struct request *request) {
    uint64_t busy_ns = 0, waited_ns = 0, wall_ns;
    resume(request);
    request->busy_ns[2] += work(work_ns / 2);
    if (request->joined) {
        guestscope_end(0); /* the innermost phase: finish */
        guestscope_end(request->token);
    } else {
        guestscope_end_both(request->phase, request->token);
    }
    wall_ns = clock_ns(CLOCK_MONOTONIC) - request->begin_ns;
    for (int phase = 0; phase < PHASES; phase++) {
        busy_ns += request->busy_ns[phase];
        waited_ns += request->await_ns[phase];
    }
    flockfile(stdout);
    printf("{\"program\":\"embed\",\"request\":%" PRIu64 ",\"traceparent\":\"%s\",\"joined\":%s,", request->number,
           request->header, request->joined ? "true" : "false");
    printf("\"queued_ns\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",\"busy_ns\":%" PRIu64 ",\"await_ns\":%" PRIu64
           ",\"phases\":[",
           request->queued_ns, wall_ns, busy_ns, waited_ns);
    for (int phase = 0; phase < PHASES; phase++)
        printf("%s{\"name\":\"%s\",\"busy_ns\":%" PRIu64 ",\"await_ns\":%" PRIu64 "}", phase ? "," : "",
               phase_names[phase], request->busy_ns[phase], request->await_ns[phase]);
    printf("]}\n");
    fflush(stdout);
    funlockfile(stdout);
}

/* The request of this thread that was due first, or null; *wake_ns becomes when to look again. Takes its turn away. */
static struct request *next_request(int thread, uint64_t *wake_ns) {
    struct request *next = NULL;
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    for (uint64_t at = 0; at < count; at++) {
        struct request *request = &requests[at];
        if (request->thread == thread && request->step >= 0 && (next == NULL || request->due_ns < next->due_ns))
            next = request;
    }
    /* Another thread may hand over a request meanwhile, so no sleep is longer than a millisecond. */
    *wake_ns = now + 1000000;
    if (next != NULL && next->due_ns > now) {
        if (next->due_ns < *wake_ns)
            *wake_ns = next->due_ns;
        next = NULL;
    }
    if (next != NULL)
        next->thread = -1;
    return next;
}

static void *run(void *argument) {
    static void (*const steps[])(struct request *) = {first_step, second_step, last_step};
    int thread = *(int *)argument;
    for (;;) {
        uint64_t wake_ns;
        pthread_mutex_lock(&lock);
        struct request *request = next_request(thread, &wake_ns);
        int done = remaining == 0;
        pthread_mutex_unlock(&lock);
        if (request != NULL) {
            steps[request->step](request);
            pthread_mutex_lock(&lock);
            request->step = request->step == 2 ? -1 : request->step + 1;
            request->thread = (thread + 1) % THREADS;
            remaining -= request->step < 0;
            pthread_mutex_unlock(&lock);
        } else if (done) {
            return NULL;
        } else {
            struct timespec until = {(time_t)(wake_ns / 1000000000u), (long)(wake_ns % 1000000000u)};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        }
    }
}

static void parse(int argc, char **argv) {
    for (int at = 1; at < argc; at += 2) {
        uint64_t value = at + 1 < argc ? strtoull(argv[at + 1], NULL, 10) : 0;
        if (strcmp(argv[at], "--requests") == 0 && value > 0 && value <= MAX_REQUESTS)
            count = value;
        else if (strcmp(argv[at], "--work-ms") == 0 && at + 1 < argc)
            work_ns = value * 1000000u;
        else if (strcmp(argv[at], "--await-ms") == 0 && at + 1 < argc)
            await_ns = value * 1000000u;
        else {
            fprintf(stderr, "error: bad option: %s\n\nhint: --requests 1-%d, --work-ms, --await-ms\n", argv[at],
                    MAX_REQUESTS);
            exit(2);
        }
    }
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    parse(argc, argv);
    remaining = count;
    start_ns = clock_ns(CLOCK_MONOTONIC);
    for (uint64_t at = 0; at < count; at++) {
        requests[at].number = at + 1;
        requests[at].thread = (int)(at % THREADS);
        requests[at].due_ns = start_ns;
    }
    for (int at = 0; at < THREADS; at++) {
        numbers[at] = at;
        if (pthread_create(&threads[at], NULL, run, &numbers[at]) != 0)
            return 2;
    }
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    return 0;
}
