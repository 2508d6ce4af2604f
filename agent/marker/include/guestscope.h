/*
 * guestscope.h: mark the phases of a program for guestscope, which charges every nanosecond of each to what the kernel
 * did with it. C99 and C++. Link with -lguestscope, or load libguestscope.so.1 by dlopen.
 *
 *     uint64_t request = guestscope_request("classify", 8, 7, 0);
 *     uint64_t phase = guestscope_first(request, "preprocess", 10);
 *     ... decode, resize ...
 *     phase = guestscope_next(phase, "inference", 9);
 *     ... the model ...
 *     guestscope_end_both(phase, request);
 *
 * All functions can be called from any thread, take no lock, allocate nothing and keep errno. Without an agent attached
 * a call costs a few nanoseconds. They are not for signal handlers. Loading the library may wait for an agent,
 * for at most 2 s, and only if the environment variable GUESTSCOPE_NOTIFY names its socket.
 *
 * Names are UTF-8, given with their length in bytes, and need no NUL. They are read during the call only. The agent
 * reads the first 64 bytes. A null pointer or a length of 0 is the empty name; a length beyond what exists is an error
 * of the caller.
 *
 * A token stands for an open phase. It is never 0, means something in its own process only (not in a forked child, where
 * nothing is open), and is unique in that process until counters wrap (2^20 threads, 2^26 requests of a thread, 2^17
 * phases of a request).
 */
#ifndef GUESTSCOPE_H
#define GUESTSCOPE_H

#include <stddef.h>
#include <stdint.h>

#define GUESTSCOPE_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Begins a phase on this thread and returns its token. It is a child of the phase that is open on this thread; where
 * none is, it is a root: the outermost phase, one trace. `request` is a number to show with it, 0 for none.
 */
uint64_t guestscope_begin(const char *name, size_t len, uint64_t request);

/*
 * Ends the phase of `token`; 0 is the innermost phase of this thread. A phase ends on the thread that it is on: to end
 * it elsewhere, leave it there and enter it here first.
 */
void guestscope_end(uint64_t token);

/*
 * Phases that join without a gap. `first` begins the first phase of `request`, or of another outermost phase, at the very
 * instant at which that began; where it has had a phase before, was left meanwhile, or is not the innermost one of this
 * thread, the phase begins now, as by guestscope_begin. Call it right behind guestscope_request: what the program waits for
 * between the two is shown in the request itself. `next` ends the phase of `token` and begins another one at the same
 * instant, and returns the token of that; of an outermost phase, and of 0, it is guestscope_end and then guestscope_begin.
 * `end_both` ends the phase of `inner` and the one of `outer` around it at the same instant; where one of them is 0, one
 * after the other. `next` and `end_both` cost one edge each, for what would be two.
 */
uint64_t guestscope_first(uint64_t request, const char *name, size_t len);
uint64_t guestscope_next(uint64_t token, const char *name, size_t len);
void guestscope_end_both(uint64_t inner, uint64_t outer);

/*
 * Suspends the phase of `token` (leave) and goes on with it, on the same or on another thread (enter). Time between the
 * two is nobody's. To suspend several nested phases leave each, innermost first, and enter each, outermost first. While
 * the phase is entered, phases that begin on the thread are its children. 0 does nothing.
 */
void guestscope_leave(uint64_t token);
void guestscope_enter(uint64_t token);

/*
 * Begins a request and returns its token: always a root, also within an open phase, which is the innermost again when
 * the request ends. `request` is its number. `scheduled_ns` is when an open-loop load generator wanted it to begin, in
 * nanoseconds of CLOCK_MONOTONIC: the time since then is shown as its phase "queue"; 0 where there is no schedule.
 */
uint64_t guestscope_request(const char *name, size_t len, uint64_t request, uint64_t scheduled_ns);

/*
 * Lets the root of `token` join a trace of the program's own, under the span `parent_span_id`; bytes in the order of the
 * W3C traceparent header. 0 is the root that this thread is inside. Call it before guestscope_traceparent, whose ids it
 * changes. Nothing happens outside all roots, for a null pointer, or for a trace id of zeros.
 */
void guestscope_context(uint64_t token, const uint8_t trace_id[16], const uint8_t parent_span_id[8]);

/*
 * Makes the phase of `token` a child of the span `span_id` of the program's own, whose phase it is. The request that it is part of joins
 * the trace if it is in none; in another trace the phase stays where it is. 0 as token does nothing.
 */
void guestscope_parent(uint64_t token, const uint8_t trace_id[16], const uint8_t span_id[8]);

/*
 * Writes the W3C traceparent header that makes a callee's spans children of the phase of `token`, with a NUL, and
 * returns its length without the NUL, which is 55. 0 is the root that this thread is inside. Returns 0 and writes nothing
 * where `cap` is below 56, `out` is null, or there is no such root. Ids are random per process, and differ after a fork.
 */
size_t guestscope_traceparent(uint64_t token, char *out, size_t cap);

/* Marks an instant within the innermost phase of this thread. */
void guestscope_mark(const char *name, size_t len);

/*
 * Gives the open phase of `token` the name that it will keep, where that is known late (a route), and a status code, 0 for
 * none. With a `len` of 0 it keeps its name. 0 as token does nothing.
 */
void guestscope_rename(uint64_t token, const char *name, size_t len, uint64_t status);

/*
 * For libraries that mark what a program does, in its place: `source` tells who made the phase. A request of a source within an
 * open phase is a phase of that.
 * `tell` says something of the source itself: "+" and what it found, "!" and what it could not, at most 64 bytes.
 */
#define GUESTSCOPE_SOURCE_MARKER 0
#define GUESTSCOPE_SOURCE_PYTHON 1
#define GUESTSCOPE_SOURCE_OTEL 2
#define GUESTSCOPE_SOURCE_NVTX 3
#define GUESTSCOPE_SOURCE_ITT 4
uint64_t guestscope_begin_from(uint32_t source, const char *name, size_t len, uint64_t request);
uint64_t guestscope_request_from(uint32_t source, const char *name, size_t len, uint64_t request, uint64_t scheduled_ns);
void guestscope_tell(uint32_t source, const char *text, size_t len);

#ifdef __cplusplus
}
#endif

#endif
