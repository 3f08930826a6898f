// A small library whose functions, blocks, names and files are known.
#include <stdexcept>

extern "C" int fails(const char *file, const char *function);

namespace crux {

int before(int n) { return n - 1; }

struct __attribute__((visibility("hidden"))) Shape {
    virtual ~Shape() {}
    virtual int area(int n) const { return n; }
};

struct __attribute__((visibility("hidden"))) Square : Shape {
    int area(int n) const override { return n * n; }
};

__attribute__((noinline, visibility("hidden"))) int hidden(int n) {
    if (n > 100) return fails("/build/src/crux/hidden.cc", __PRETTY_FUNCTION__);
    return n + 1;
}

int shown(int n) { return hidden(n) * 2; }

}  // namespace crux

extern "C" {

int fails(const char *file, const char *function) { return file[0] + function[0]; }

int first(int n) { return n - 1; }

int branch(int n) {
    if (n > 10) return n * 3;
    return crux::hidden(n);
}

int loop(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += branch(i);
    return sum;
}

int catches(int n) {
    try {
        if (n) throw std::runtime_error("n");
    } catch (const std::exception &) {
        return 7;
    }
    return 1;
}

int area(int n) {
    crux::Shape *shape = n > 5 ? new crux::Square : new crux::Shape;
    int found = shape->area(n);
    delete shape;
    return found;
}

int crash(int n) { return *(volatile int *)(long)n; }

int trap(int n) {
    volatile int kept = n;
    __asm__ volatile("int3");
    return kept;
}

int choose(int n) {
    switch (n) {
        case 0: return 11;
        case 1: return branch(n);
        case 2: return loop(n);
        case 3: return 5;
        case 4: return catches(n);
        case 5: return 77;
        default: return -1;
    }
}
}
