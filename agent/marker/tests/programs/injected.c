/*
 * Stands for the headers of NVTX and ITT, as far as a tool sees them: tables of functions for the library that the environment
 * names. Then it does what its argument says, and prints what the program would have seen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

typedef void (*function)(void);
enum { CORE = 16, CORE2 = 16 };

static function core[CORE], core2[CORE2];
static function *core_table[CORE + 1], *core2_table[CORE2 + 1];

static int functions(unsigned module, function ***table, unsigned *size) {
    if (module == 1)
        return *table = core_table, *size = CORE, 1;
    if (module == 5)
        return *table = core2_table, *size = CORE2, 1;
    return 0;
}

static struct {
    size_t bytes;
    int (*functions)(unsigned, function ***, unsigned *);
} callbacks = {sizeof callbacks, functions};

static const void *export_table(uint32_t number) { return number == 1 ? &callbacks : NULL; }

struct attributes {
    uint16_t version, bytes;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

static struct attributes attributes(int type, const void *message) {
    struct attributes made = {3, sizeof made, 0, 0, 0, 0, 0, 0, type, message};
    return made;
}

#define CALL(table, number, type) ((type)table[number])
static int push(const char *name) { return core[9] ? CALL(core, 9, int (*)(const char *))(name) : -2; }
static int pop(void) { return core[11] ? CALL(core, 11, int (*)(void))() : -2; }
static uint64_t start(const char *name) { return CALL(core, 5, uint64_t (*)(const char *))(name); }
static void end(uint64_t range) { CALL(core, 7, void (*)(uint64_t))(range); }
static void *domain(const char *name) { return CALL(core2, 12, void *(*)(const char *))(name); }
static void *string(void *domain, const char *text) {
    return CALL(core2, 10, void *(*)(void *, const char *))(domain, text);
}
static int push_in(void *domain, struct attributes made) {
    return CALL(core2, 4, int (*)(void *, struct attributes *))(domain, &made);
}
static int pop_in(void *domain) { return CALL(core2, 5, int (*)(void *))(domain); }

static void nested(void) {
    void *data = domain("data");
    struct attributes with = attributes(1, "request");
    with.payload_type = 2, with.payload = 7;
    CALL(core, 8, int (*)(struct attributes *))(&with);
    push("load");
    push_in(data, attributes(3, string(data, "decode")));
    push_in(data, attributes(2, L"gr\u00f6\u00dfe"));
    CALL(core, 2, void (*)(const char *))("here");
    pop_in(data), pop_in(data), pop();
    CALL(core2, 8, void (*)(void *, uint32_t, const char *))(data, 5, "io");
    with = attributes(0, NULL), with.category = 5, with.payload_type = 5, with.payload = 0xffffffff;
    push_in(data, with);
    pop_in(data);
    int pushed = push("last"), popped = pop();
    printf("%d %d\n", pushed, popped);
    pop();
}

static void hostile(void) {
    char *large = malloc(10001);
    memset(large, 'x', 10000), large[10000] = 0;
    struct attributes small = attributes(1, "never read");
    small.bytes = 8;
    static const wchar_t wide[] = {0x110000, -1, 'a', 0};
    pop(), pop_in((void *)0x123), end(0), end(12345);
    push(NULL), pop();
    push(large), pop();
    push("\xff\xfe"), pop();
    CALL(core, 10, int (*)(const wchar_t *))(wide), pop();
    CALL(core, 10, int (*)(const wchar_t *))(NULL), pop();
    CALL(core, 8, int (*)(struct attributes *))(NULL), pop();
    push_in(NULL, small), pop();
    push_in((void *)0x123, attributes(1, "nowhere")), pop_in((void *)0x123);
    push_in(domain(NULL), attributes(3, (void *)0x456)), pop_in(domain(NULL));
    push_in(domain(large), attributes(1, large));
    pop(), pop();
}

static void interleaved(void) {
    void *one = domain("one"), *two = domain("two");
    push_in(one, attributes(1, "a")), push_in(two, attributes(1, "b"));
    pop_in(one), pop_in(two);
    uint64_t first = start("c"), second = start("d");
    end(first), end(second), end(second);
}

static uint64_t crossing_range;
static void *ends(void *unused) {
    end(crossing_range);
    return unused;
}

static void crossing(void) {
    for (int time = 0; time < 3; time++) {
        pthread_t thread;
        crossing_range = start("crossing");
        push("inside");
        pthread_create(&thread, NULL, ends, NULL), pthread_join(thread, NULL);
        pop();
    }
}

static void deep(void) {
    for (int depth = 0; depth < 300; depth++)
        push("deep");
    for (int depth = 0; depth < 310; depth++)
        pop();
    push("after"), pop();
}

static void forked(void) {
    push("parent");
    pid_t child = fork();
    if (child == 0) {
        pop(), push("child"), pop();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    pop();
}

static void *exits(void *unused) {
    push("never popped"), start("never ended");
    return unused;
}

static void leaving(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, exits, NULL), pthread_join(thread, NULL);
    push("main"), pop();
}

/* ITT: the beginning of the static part's state, and its list. */
struct info {
    const char *name;
    function *place;
    function initial, null;
    int group;
};
static function itt[20];
static void null_function(void) {}
static struct info list[] = {
    {"__itt_domain_create", &itt[0], null_function, null_function, 1},
    {"__itt_string_handle_create", &itt[1], null_function, null_function, 1},
    {"__itt_task_begin", &itt[2], null_function, NULL, 1},
    {"__itt_task_end", &itt[3], null_function, NULL, 1},
    {"__itt_task_begin_overlapped", &itt[4], null_function, NULL, 1},
    {"__itt_task_end_overlapped", &itt[5], null_function, NULL, 1},
    {"__itt_frame_begin_v3", &itt[6], null_function, NULL, 1},
    {"__itt_frame_end_v3", &itt[7], null_function, NULL, 1},
    {"__itt_frame_submit_v3", &itt[8], null_function, NULL, 1},
    {"__itt_event_create", &itt[9], null_function, NULL, 1},
    {"__itt_event_start", &itt[10], null_function, NULL, 1},
    {"__itt_event_end", &itt[11], null_function, NULL, 1},
    {"__itt_marker", &itt[12], null_function, NULL, 1},
    {"__itt_task_begin_fn", &itt[13], null_function, NULL, 1},
    {NULL, NULL, NULL, NULL, 0},
};
struct itt_domain {
    volatile int flags;
    const char *name;
    void *wide;
    int extra1;
    void *extra2, *next;
};
struct itt_string {
    const char *name;
    void *wide;
    int extra1;
    void *extra2, *next;
};
struct global {
    unsigned char magic[8];
    unsigned long major, minor, build;
    long initialised, mutex_initialised, counter;
    pthread_mutex_t mutex;
    void *library, *error_handler, *path;
    struct info *list;
};
static struct global global = {{0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30}, 3, 26, 20180723, 0, 0, 0,
                               PTHREAD_MUTEX_INITIALIZER, 0, 0, 0, list};
struct id {
    unsigned long long parts[3];
};
static const struct id none;

static struct itt_domain *itt_domain(const char *name) {
    return CALL(itt, 0, struct itt_domain *(*)(const char *))(name);
}
static void task_in(struct itt_domain *domain, struct itt_string *name) {
    CALL(itt, 2, void (*)(void *, struct id, struct id, void *))(domain, none, none, name);
}
static void task(struct itt_domain *domain, const char *name) {
    task_in(domain, CALL(itt, 1, void *(*)(const char *))(name));
}
static void task_end(struct itt_domain *domain) { CALL(itt, 3, void (*)(void *))(domain); }

static void tasks(void) {
    /* Made before the tool was there. */
    static struct itt_domain early = {1, "early", 0, 0, 0, 0};
    static struct itt_string early_name = {"step", 0, 0, 0, 0};
    struct itt_domain *torch = itt_domain("PyTorch");
    task_end(torch);
    task_in(&early, &early_name), task(torch, "mine");
    CALL(itt, 12, void (*)(void *, struct id, void *, int))(torch, none, CALL(itt, 1, void *(*)(const char *))("mark"), 0);
    task_end(torch), task_end(itt_domain("early"));
    struct id first = {{1, 0, 0}}, second = {{2, 0, 0}};
    CALL(itt, 4, void (*)(void *, struct id, struct id, void *))(torch, first, none, &early_name);
    CALL(itt, 6, void (*)(void *, struct id *))(torch, &second);
    CALL(itt, 5, void (*)(void *, struct id))(torch, first);
    CALL(itt, 7, void (*)(void *, struct id *))(torch, &second);
    CALL(itt, 6, void (*)(void *, struct id *))(itt_domain("frames"), NULL);
    CALL(itt, 13, void (*)(void *, struct id, struct id, void *))(torch, none, none, tasks);
    task_end(torch);
    CALL(itt, 7, void (*)(void *, struct id *))(itt_domain("frames"), NULL);
    for (int time = 0; time < 2; time++) {
        int event = CALL(itt, 9, int (*)(const char *, int))("event", 5);
        CALL(itt, 10, int (*)(int))(event), CALL(itt, 11, int (*)(int))(event);
    }
    task_in(NULL, NULL), task_in(torch, NULL), task_end(torch), task_end(NULL);
    CALL(itt, 5, void (*)(void *, struct id))(torch, second), CALL(itt, 11, int (*)(int))(77);
    printf("%d %d %d\n", itt[8] == NULL, itt_domain(NULL) == NULL, itt_domain("PyTorch") == torch);
}

/* The clock that the tool sees: it goes on by a microsecond at each look, and as far as a scene says. */
static uint64_t clock_ns = 1000000000;
int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    clock_ns += 1000;
    now->tv_sec = clock_ns / 1000000000, now->tv_nsec = clock_ns % 1000000000;
    return 0;
}
static void spin(uint64_t ns) { clock_ns += ns; }

static void kinds(void) {
    struct itt_domain *dnnl = itt_domain("dnnl::primitive::execute"), *own = itt_domain("own");
    for (int time = 0; time < 100; time++) {
        task(dnnl, "convolution"), spin(100000), task_end(dnnl);
        task(dnnl, "reorder"), task_end(dnnl);
        task(own, "tiny"), task_end(own);
        /* Compiled at its first uses. */
        task(dnnl, "create"), spin(time < 8 ? 100000 : 0), task_end(dnnl);
    }
}

/* Details on a thread that is inside nothing. */
static void *worker(void *unused) {
    struct itt_domain *dnnl = itt_domain("dnnl::primitive::execute");
    task(dnnl, "convolution"), spin(100000), task_end(dnnl);
    return unused;
}

/* Requests that the program marks itself, with ranges, tasks and a library's tasks inside. */
static void within(void) {
    void *marker = dlopen(getenv("GUESTSCOPE_LIBRARY"), RTLD_NOW), *data = domain("data");
    uint64_t (*request)(const char *, size_t, uint64_t, uint64_t) =
        (uint64_t(*)(const char *, size_t, uint64_t, uint64_t))dlsym(marker, "guestscope_request");
    void (*finish)(uint64_t) = (void (*)(uint64_t))dlsym(marker, "guestscope_end");
    struct itt_domain *dnnl = itt_domain("dnnl::primitive::execute"), *torch = itt_domain("PyTorch");
    for (uint64_t number = 1; number <= 12; number++) {
        uint64_t handle = request("handle", 6, number, 0);
        struct attributes with = attributes(1, "load");
        with.payload_type = 1, with.payload = 42;
        push_in(data, with), pop_in(data);
        push("forward"), task(torch, "layer");
        task(dnnl, "convolution"), spin(100000), task_end(dnnl);
        task_end(torch), pop();
        finish(handle);
        pthread_t thread;
        pthread_create(&thread, NULL, worker, NULL), pthread_join(thread, NULL);
    }
    struct attributes alone = attributes(1, "alone");
    alone.payload_type = 1, alone.payload = 9;
    push_in(NULL, alone), pop();
}

int main(int count, char **arguments) {
    for (int at = 0; at < CORE; at++)
        core_table[at] = &core[at], core2_table[at] = &core2[at];
    const char *path = getenv("NVTX_INJECTION64_PATH"), *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "variables"))
        return printf("%s %s\n", path ? path : "-", getenv("INTEL_LIBITTNOTIFY64") ? "itt" : "-"), 0;
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 2;
    int (*nvtx)(const void *(*)(uint32_t)) = (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2");
    void (*init)(void *, int) = (void (*)(void *, int))dlsym(library, "__itt_api_init");
    printf("%d\n", nvtx(export_table));
    global.library = library;
    init(&global, -1);
    static const struct {
        const char *name;
        void (*scene)(void);
    } scenes[] = {{"nested", nested}, {"hostile", hostile}, {"interleaved", interleaved}, {"crossing", crossing},
                  {"deep", deep},     {"forked", forked},   {"leaving", leaving},         {"tasks", tasks},
                  {"kinds", kinds},   {"within", within}};
    for (size_t at = 0; at < sizeof scenes / sizeof *scenes; at++)
        if (!strcmp(what, scenes[at].name))
            scenes[at].scene();
    if (!strcmp(what, "nothing")) {
        int pushed = push("x"), popped = pop();
        printf("%d %d %d\n", pushed, popped, itt[2] == NULL && itt[0] == null_function);
    }
    return 0;
}
