/* An allocator that shows what a program does to memory that is not its own; preloaded into a guarded worker.
 *
 * While crux_guard(pattern) is on (pattern > 0), each block ends at a page that nobody may touch, is filled
 * with the pattern, and is never used again once it is freed. A write into the few bytes between a block's
 * end and that page is seen when the block is freed. What is seen stands on standard error in one line that
 * begins with "memory: "; the process dies of SIGSEGV or SIGABRT. Memory beyond the room reserved, and all
 * that is taken while the guard is off, comes from the C library.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#define PAGE 4096UL
#define ROOM (16UL << 30)
#define MOST_LIVE 24000 /* each takes two mappings, of which Linux allows 65,530 */
#define FILL(pattern) (0xA5 ^ (pattern)) /* after a block's end: what reads it hangs on the pattern, too */

struct block { size_t size; uintptr_t start; int freed, fill; };

static char *room;
static size_t next_page;
static struct block *blocks; /* by the first page of each, and by the page of what it gave out */
static int live, pattern;
static volatile char lock;

static void enter(void) { while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) ; }
static void leave(void) { __atomic_clear(&lock, __ATOMIC_RELEASE); }

void crux_guard(int value) {
    if (!room && value) {
        room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        blocks = mmap(NULL, ROOM / PAGE * sizeof *blocks, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED || blocks == MAP_FAILED) room = NULL;
    }
    pattern = room ? value : 0;
}

static int is_ours(const void *address) {
    return room && (const char *)address >= room && (const char *)address < room + ROOM;
}

static struct block *block_of(const void *address) { return &blocks[((const char *)address - room) / PAGE]; }

static void say(const char *what, size_t size) {
    char line[96];
    int length = snprintf(line, sizeof line, "memory: %s a block of %zu bytes\n", what, size);
    (void)!write(2, line, (size_t)length);
}

static void *take(size_t size, size_t align) {
    size_t wanted = size ? size : 1, pages;
    char *first, *start;
    if (!pattern || size > ROOM / 8 || align > PAGE) return NULL;
    if (align < 16) align = 16;
    wanted = (wanted + align - 1) & ~(align - 1);
    pages = (wanted + PAGE - 1) / PAGE;
    enter();
    if (live >= MOST_LIVE || (next_page + pages + 1) * PAGE > ROOM) { leave(); return NULL; }
    first = room + next_page * PAGE;
    if (mprotect(first, pages * PAGE, PROT_READ | PROT_WRITE)) { leave(); return NULL; }
    start = first + pages * PAGE - wanted;
    for (size_t page = 0; page <= pages; page++) {
        struct block *each = &blocks[next_page + page];
        each->size = size, each->start = (uintptr_t)start, each->freed = 0, each->fill = FILL(pattern) & 0xFF;
    }
    next_page += pages + 1;
    live++;
    leave();
    memset(first, pattern, pages * PAGE);
    memset(start + size, FILL(pattern), (size_t)(first + pages * PAGE - (start + size)));
    return start;
}

static void give_back(void *address) {
    struct block *found = block_of(address);
    char *start = (char *)found->start, *end = (char *)(((uintptr_t)start + found->size + PAGE - 1) & ~(PAGE - 1));
    if (found->freed || start != (char *)address) {
        say(found->freed ? "freed twice:" : "freed within:", found->size);
        abort();
    }
    if (!found->size) end = (char *)(((uintptr_t)start & ~(PAGE - 1)) + PAGE);
    for (char *at = start + found->size; at < end; at++)
        if (*(unsigned char *)at != found->fill) { say("write beyond", found->size); abort(); }
    char *first = (char *)((uintptr_t)start & ~(PAGE - 1));
    enter();
    for (char *page = first; page <= end; page += PAGE) block_of(page)->freed = 1;
    madvise(first, (size_t)(end - first), MADV_DONTNEED);
    mprotect(first, (size_t)(end - first), PROT_NONE);
    live--;
    leave();
}

/* Called by the crash handler: what a fault at an address is, if it is about guarded memory. */
void crux_guard_tell(const void *address, int is_write) {
    struct block *found;
    if (!is_ours(address)) return;
    found = block_of(address);
    if (!found->start) return;
    if (found->freed) say(is_write ? "write after the release of" : "read after the release of", found->size);
    else say(is_write ? "write beyond" : "read beyond", found->size);
}

void *malloc(size_t size) {
    void *found = pattern ? take(size, 16) : NULL;
    return found ? found : __libc_malloc(size);
}

void free(void *address) {
    if (is_ours(address)) give_back(address);
    else __libc_free(address);
}

void *calloc(size_t count, size_t size) {
    size_t wanted;
    void *found = NULL;
    if (pattern && !__builtin_mul_overflow(count, size, &wanted)) found = take(wanted, 16);
    if (found) return memset(found, 0, wanted);
    return __libc_calloc(count, size);
}

void *realloc(void *address, size_t size) {
    void *found;
    if (!is_ours(address) && !(pattern && !address)) return __libc_realloc(address, size);
    if (address && !size) { free(address); return NULL; }
    found = malloc(size);
    if (found && address) {
        size_t before = block_of(address)->size;
        memcpy(found, address, before < size ? before : size);
        free(address);
    }
    return found;
}

void *memalign(size_t align, size_t size) {
    void *found = pattern ? take(size, align) : NULL;
    return found ? found : __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

int posix_memalign(void **place, size_t align, size_t size) {
    void *found = memalign(align, size);
    if (!found) return ENOMEM;
    *place = found;
    return 0;
}

size_t malloc_usable_size(void *address) {
    static size_t (*usual)(void *);
    extern void *dlsym(void *, const char *);
    if (is_ours(address)) return block_of(address)->size;
    if (!usual) usual = (size_t (*)(void *))dlsym((void *)-1L, "malloc_usable_size");
    return usual && address ? usual(address) : 0;
}
