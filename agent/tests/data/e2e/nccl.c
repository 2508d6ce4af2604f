/* A library with NCCL's names, whose collective lasts until all processes have come; with PROGRAM, a process
   of a training: `train LIBRARY NOTE RANK RANKS STEPS HOW`. It says NOTE.ready.RANK and begins when there is
   NOTE.go. Each step sleeps 10 ms; rank 1 in addition sleeps (HOW `sleep`) or computes (`cpu`) for 8 ms; with
   `turns` the ranks sleep so long in turns. */
#include <stdatomic.h>
#ifndef PROGRAM
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

struct meeting { atomic_int come, round; };

int ncclCommInitRank(void **comm, int ranks, void *meeting, int rank) {
    comm[0] = meeting;
    return ranks <= rank;
}

int ncclAllReduce(struct meeting *meeting, int ranks) {
    int round = atomic_load(&meeting->round);
    if (atomic_fetch_add(&meeting->come, 1) + 1 == ranks) {
        atomic_store(&meeting->come, 0);
        atomic_fetch_add(&meeting->round, 1);
        syscall(SYS_futex, &meeting->round, FUTEX_WAKE, INT_MAX, 0, 0, 0);
    }
    while (atomic_load(&meeting->round) == round)
        syscall(SYS_futex, &meeting->round, FUTEX_WAIT, round, 0, 0, 0);
    return 0;
}

#else
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int (*all_reduce)(void *, int);
static void *comm;
static int rank, ranks;
static const char *how;

static void compute(long us) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

__attribute__((noinline)) int train_step(long number) {
    usleep(10000);
    if (!strcmp(how, "turns") ? number % ranks == rank : rank == 1) {
        if (!strcmp(how, "cpu")) compute(8000);
        else usleep(8000);
    }
    return all_reduce(comm, ranks);
}

int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW);
    if (count < 7 || !library) return 1;
    rank = atoi(words[3]), ranks = atoi(words[4]), how = words[6];
    char path[4096];
    snprintf(path, sizeof path, "%s.meeting", words[2]);
    int file = open(path, O_RDWR | O_CREAT, 0666);
    if (file < 0 || ftruncate(file, 4096)) return 2;
    void *meeting = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    snprintf(path, sizeof path, "%s.ready.%d", words[2], rank);
    fclose(fopen(path, "w"));
    snprintf(path, sizeof path, "%s.go", words[2]);
    while (access(path, F_OK)) usleep(10000);
    int (*init)(void **, int, void *, int) =
        (int (*)(void **, int, void *, int))dlsym(library, "ncclCommInitRank");
    all_reduce = (int (*)(void *, int))dlsym(library, "ncclAllReduce");
    if (init(&comm, ranks, meeting, rank)) return 3;
    for (long number = 0; number < atol(words[5]); number++) train_step(number);
    return 0;
}
#endif
