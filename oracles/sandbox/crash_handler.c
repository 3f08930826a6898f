/* Native frames of a dying process, written to a file that outlives it.
 *
 * crux_watch(fd) goes before the handlers that are there (Python's faulthandler): on a fatal signal, or when
 * the CPU limit strikes, it writes
 *
 *     signal N
 *     address X        what the fault was about
 *     pc X             where
 *     frame X          return addresses, innermost first, this handler's own included
 *     maps             and then /proc/self/maps
 *
 * and lets the signal take its course. Only async-signal-safe calls, but for backtrace(), which is so once
 * it has been called before. It runs on a stack of its own, so that an overflown one can be told, too.
 */
#define _GNU_SOURCE
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define FRAMES 256

static const int watched[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF, SIGXCPU};
#define WATCHED (sizeof watched / sizeof *watched)

static struct sigaction earlier[WATCHED];
static unsigned char stack[1 << 18];
static void *frames[FRAMES];
static int out = -1;

static void put(const char *word, uintptr_t value) {
    char line[64];
    size_t size = strlen(word), digits = 1;
    memcpy(line, word, size);
    for (uintptr_t rest = value >> 4; rest; rest >>= 4) digits++;
    for (size_t i = 0; i < digits; i++) line[size + i] = "0123456789abcdef"[value >> 4 * (digits - 1 - i) & 15];
    line[size + digits] = '\n';
    (void)!write(out, line, size + digits + 1);
}

static uintptr_t program_counter(const ucontext_t *context) {
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    return 0;
#endif
}

/* The guarded allocator's, where one is preloaded. */
extern void crux_guard_tell(const void *address, int is_write) __attribute__((weak));

static int is_write(const ucontext_t *context) {
#if defined(__x86_64__)
    return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    return 0;
#endif
}

static void copy_maps(void) {
    static char block[1 << 14];
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ssize_t size;
    if (maps < 0) return;
    (void)!write(out, "maps\n", 5);
    while ((size = read(maps, block, sizeof block)) > 0) (void)!write(out, block, (size_t)size);
    close(maps);
}

static void tell(int number, siginfo_t *info, void *context) {
    for (size_t i = 0; i < WATCHED; i++)
        if (watched[i] == number) sigaction(number, &earlier[i], NULL);
    if (number == SIGSEGV && crux_guard_tell) crux_guard_tell(info->si_addr, is_write(context));
    put("signal ", (uintptr_t)number);
    put("address ", (uintptr_t)info->si_addr);
    put("pc ", program_counter(context));
    int count = backtrace(frames, FRAMES);
    for (int i = 0; i < count; i++) put("frame ", (uintptr_t)frames[i]);
    copy_maps();
    raise(number);
}

void crux_watch(int fd) {
    struct sigaction action;
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    out = fd;
    backtrace(frames, 2);
    sigaltstack(&own, NULL);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = tell;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < WATCHED; i++) sigaction(watched[i], &action, &earlier[i]);
}
