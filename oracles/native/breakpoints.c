/* One-shot breakpoints at the basic blocks of a loaded library, and the list of those that were met.
 *
 * crux_arm(table, shared, first) writes `int3` over the first byte of every block that the table names, in the
 * loaded library of the same build id, and says how many there are; below zero it is an errno, negated. A block
 * that is met writes itself down and takes its breakpoint away, so it costs once. The process is forked after
 * that: the list is shared, the code is each process's own.
 *
 *     table:   "CRXPROB1", count, bytes of the build id, the id padded to 40 bytes,
 *              count addresses of 32 bits, in order, count first bytes, count flags (1: starts a function)
 *     shared:  a page, `struct totals`; one byte a block: met; 32 bits for each that was met since crux_begin
 *
 * crux_begin() empties the list. With `each_test` it also sets the breakpoints of the functions
 * that were listed again, so that every test tells all functions that it entered: some thousand signals a test.
 * crux_settle() is for the process that is forked from: it takes away what any child has met, so that a new
 * child does not meet it once more.
 *
 * crux_leave_out() empties the list without that: functions that the warm-up enters are entered by every test.
 *
 * A breakpoint that is not ours goes to the handler that was there before.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)

#define BREAKPOINT 0xCC
#define PAGE 4096u
#define MOST 16
#define ID_ROOM 40

struct head {
    char magic[8];
    uint64_t count, id_size;
    unsigned char id[ID_ROOM];
};

struct library {
    unsigned char *base;
    const uint32_t *address;
    const unsigned char *original, *is_function;
    uint32_t *page_first;
    uint32_t count, first, low_page, pages;
};

struct totals {
    uint64_t listed, ever, each_test;
};

static struct library libraries[MOST];
static int loaded;
static struct totals *totals;
static unsigned char *seen;
static uint32_t *list;
static uint64_t settled;
static struct sigaction earlier;

struct wanted {
    const struct head *head;
    unsigned char *base;
    const ElfW(Phdr) *headers;
    int count;
};

static int has_id(const struct dl_phdr_info *info, const struct head *head) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_NOTE) continue;
        const char *at = (const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const char *end = at + info->dlpi_phdr[i].p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *name = at + sizeof *note, *body = name + ((note->n_namesz + 3) & ~3u);
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4))
                return note->n_descsz == head->id_size && !memcmp(body, head->id, head->id_size);
            at = body + ((note->n_descsz + 3) & ~3u);
        }
    }
    return 0;
}

static int look(struct dl_phdr_info *info, size_t size, void *data) {
    struct wanted *wanted = data;
    (void)size;
    if (!has_id(info, wanted->head)) return 0;
    wanted->base = (unsigned char *)info->dlpi_addr;
    wanted->headers = info->dlpi_phdr;
    wanted->count = info->dlpi_phnum;
    return 1;
}

/* The number of a breakpoint in its library, or the count where there is none at this address. */
static uint32_t find(const struct library *library, uintptr_t address) {
    uintptr_t offset = address - (uintptr_t)library->base;
    uintptr_t page = offset / PAGE - library->low_page;
    if (offset / PAGE < library->low_page || page >= library->pages) return library->count;
    for (uint32_t i = library->page_first[page]; i < library->page_first[page + 1]; i++)
        if (library->address[i] == offset) return i;
    return library->count;
}

static void on_trap(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t address = (uintptr_t)registers[REG_RIP] - 1;
    for (int l = 0; l < loaded; l++) {
        struct library *library = &libraries[l];
        uint32_t i = find(library, address);
        if (i == library->count) continue;
        registers[REG_RIP] = (greg_t)address;
        /* two threads may meet the same one: the one that takes it away writes it down */
        if (__atomic_exchange_n((unsigned char *)address, library->original[i], __ATOMIC_SEQ_CST) != BREAKPOINT)
            return;
        list[__atomic_fetch_add(&totals->listed, 1, __ATOMIC_RELAXED)] = library->first + i;
        if (!seen[library->first + i]) {
            seen[library->first + i] = 1;
            __atomic_fetch_add(&totals->ever, 1, __ATOMIC_RELAXED);
        }
        return;
    }
    if (earlier.sa_flags & SA_SIGINFO) {
        earlier.sa_sigaction(number, info, context);
    } else if (earlier.sa_handler == SIG_DFL) {
        signal(number, SIG_DFL);
        raise(number);
    } else if (earlier.sa_handler != SIG_IGN) {
        earlier.sa_handler(number);
    }
}

static int watch(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGTRAP, &action, &earlier);
}

static int share(int shared) {
    struct stat status;
    if (totals) return 0;
    if (fstat(shared, &status)) return -1;
    unsigned char *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    if (memory == MAP_FAILED) return -1;
    uint64_t room = ((uint64_t)status.st_size - PAGE) / 5 & ~3ull;
    totals = (void *)memory;
    seen = memory + PAGE;
    list = (void *)(seen + room);
    return watch();
}

/* Where each page's breakpoints begin, so that one is found among those of its page. */
static int index_pages(struct library *library) {
    library->low_page = library->address[0] / PAGE;
    library->pages = library->address[library->count - 1] / PAGE - library->low_page + 1;
    size_t size = (library->pages + 1) * sizeof(uint32_t);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -1;
    library->page_first = memory;
    uint32_t i = 0;
    for (uint32_t page = 0; page <= library->pages; page++) {
        while (i < library->count && library->address[i] / PAGE - library->low_page < page) i++;
        library->page_first[page] = i;
    }
    return 0;
}

static int make_writable(const struct wanted *wanted) {
    for (int i = 0; i < wanted->count; i++) {
        const ElfW(Phdr) *header = &wanted->headers[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
        uintptr_t start = ((uintptr_t)wanted->base + header->p_vaddr) & ~(uintptr_t)(PAGE - 1);
        uintptr_t end = (uintptr_t)wanted->base + header->p_vaddr + header->p_memsz;
        if (mprotect((void *)start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC)) return -1;
    }
    return 0;
}

static int is_told_each_time(const struct library *library, uint32_t i) {
    return totals->each_test && library->is_function[i];
}

long crux_arm(int table, int shared, uint32_t first) {
    struct stat status;
    if (loaded == MOST) return -E2BIG;
    if (fstat(table, &status)) return -errno;
    const unsigned char *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, table, 0);
    if (data == MAP_FAILED) return -errno;
    const struct head *head = (const void *)data;
    if (memcmp(head->magic, "CRXPROB1", 8) || (size_t)status.st_size < sizeof *head + 6 * head->count) return -EINVAL;
    struct wanted wanted = {.head = head};
    if (!head->count || !dl_iterate_phdr(look, &wanted)) return 0; /* this library is not loaded */
    struct library *library = &libraries[loaded];
    library->base = wanted.base;
    library->count = (uint32_t)head->count;
    library->first = first;
    library->address = (const void *)(data + sizeof *head);
    library->original = data + sizeof *head + 4 * head->count;
    library->is_function = library->original + head->count;
    if (share(shared) || index_pages(library) || make_writable(&wanted)) return -errno;
    loaded++;
    long armed = 0;
    for (uint32_t i = 0; i < library->count; i++) {
        unsigned char *place = library->base + library->address[i];
        if (*place == library->original[i] && (is_told_each_time(library, i) || !seen[first + i])) {
            *place = BREAKPOINT;
            armed++;
        }
    }
    return armed;
}

static struct library *library_of(uint32_t number) {
    for (int l = 0; l < loaded; l++)
        if (number - libraries[l].first < libraries[l].count) return &libraries[l];
    return NULL;
}

static void set(uint32_t number) {
    struct library *library = library_of(number);
    if (library) library->base[library->address[number - library->first]] = BREAKPOINT;
}

/* Every breakpoint as the bytes of the blocks want it: away where it was met, there where it was not. */
static void set_all(void) {
    for (int l = 0; l < loaded; l++) {
        struct library *library = &libraries[l];
        for (uint32_t i = 0; i < library->count; i++) {
            unsigned char *place = library->base + library->address[i];
            int is_wanted = !seen[library->first + i] || is_told_each_time(library, i);
            unsigned char wanted = is_wanted ? BREAKPOINT : library->original[i];
            if (*place != wanted) *place = wanted;
        }
    }
}

void crux_begin(void) {
    if (!totals) return;
    for (uint64_t at = 0; totals->each_test && at < totals->listed; at++) {
        struct library *library = library_of(list[at]);
        if (library && library->is_function[list[at] - library->first]) set(list[at]);
    }
    totals->listed = 0;
}

void crux_leave_out(void) {
    if (totals) totals->listed = 0;
}

void crux_settle(void) {
    if (!totals || settled == totals->ever) return;
    settled = totals->ever;
    set_all();
}

#else

long crux_arm(int table, int shared, uint32_t first) {
    (void)table, (void)shared, (void)first;
    return -ENOSYS;
}
void crux_begin(void) {}
void crux_leave_out(void) {}
void crux_settle(void) {}

#endif
