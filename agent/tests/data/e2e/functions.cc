// C++ functions with exceptions, for names as people write them.
#include <cstdio>
#include <stdexcept>

namespace model {
struct Session {
    __attribute__((noinline)) long run(long input);
    __attribute__((noinline)) long check(long input);
};
long Session::check(long input) {
    if (input % 3 == 0)
        throw std::runtime_error("refused");
    return input;
}
long Session::run(long input) {
    try {
        return check(input) + 1;
    } catch (const std::exception &) {
        return -1;
    }
}
} // namespace model

int main() {
    model::Session session;
    long sum = 0;
    for (long i = 0; i < 30; i++)
        sum += session.run(i);
    std::printf("done %ld\n", sum);
    return 0;
}
