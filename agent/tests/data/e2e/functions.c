/* Functions that are called in every way that calls can begin and end. Each role does a known thing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static jmp_buf out;
static volatile long sum;

static void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

APART void leaf(int rounds) {
    for (int i = 0; i < rounds; i++)
        sum += i;
}
APART long deep(int more) {
    long below = more > 1 ? deep(more - 1) : 0;
    sum += below;
    return below + 1;
}
APART void leaves(int by_a_jump) {
    leaf(10);
    if (by_a_jump)
        longjmp(out, 1);
    sum++;
}
/* The second argument is the number of the request. */
APART void serve(const char *what, long number) {
    sum += what[0];
    leaf(100);
    if (!setjmp(out))
        leaves(number % 2);
    leaf(100);
}
/* Leaves no frame: a tail call, as optimising compilers make it. */
APART __attribute__((optimize("O2", "optimize-sibling-calls"))) long hop(int more) {
    sum++;
    return deep(more + 1);
}

static void *thread(void *unused) {
    for (int i = 0; i < 25; i++)
        deep(3);
    return unused;
}

int main(int words, char **word) {
    const char *role = words > 1 ? word[1] : "";
    long count = words > 2 ? atol(word[2]) : 0;
    if (!strcmp(role, "serve")) {
        for (long i = 0; i < count; i++)
            serve("x", 1000 + i);
    } else if (!strcmp(role, "deep")) {
        deep(count);
    } else if (!strcmp(role, "hop")) {
        for (long i = 0; i < count; i++)
            hop(0);
    } else if (!strcmp(role, "threads")) {
        pthread_t all[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&all[i], NULL, thread, NULL);
        for (int i = 0; i < 4; i++)
            pthread_join(all[i], NULL);
    } else if (!strcmp(role, "hot")) {
        for (long i = 0; i < count; i++)
            leaf(1);
    } else if (!strcmp(role, "forks")) {
        for (long i = 0; i < count; i++) {
            pid_t child = fork();
            deep(2);
            if (child == 0)
                _exit(0);
            waitpid(child, NULL, 0);
        }
    } else if (!strcmp(role, "loads") || !strcmp(role, "goes-on")) {
        /* A library by its path, loaded late, then called for a while; a file tells it to load the next one. */
        for (int w = 3; w < words; w++) {
            sleep_ms(500);
            while (!strncmp(word[w], "until:", 6) && access(word[w] + 6, F_OK))
                sleep_ms(10);
            if (!strncmp(word[w], "until:", 6))
                continue;
            void *library = dlopen(word[w], RTLD_NOW);
            long (*work)(long) = library ? (long (*)(long))dlsym(library, "work") : NULL;
            if (!work)
                return 3;
            puts("loaded");
            fflush(stdout);
            sleep_ms(1500);
            for (long i = 0; i < count; i++)
                sum += work(i);
            dlclose(library);
        }
    }
    printf("done %s\n", role);
    return 0;
}
