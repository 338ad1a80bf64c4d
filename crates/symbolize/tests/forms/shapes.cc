#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <cstdio>
#include <cstdlib>
namespace shapes {
struct Base { virtual ~Base() = default; virtual double area() const = 0; };
template <class T> struct Square final : Base {
  T side; explicit Square(T s) : side(s) {}
  double area() const override { if (side < 0) throw std::runtime_error("negative"); return side * side; }
};
template <class It, class F> static inline auto fold(It a, It b, F f) { double s = 0; for (; a != b; ++a) s += f(*a); return s; }
}
static __attribute__((noinline)) double total(const std::vector<std::unique_ptr<shapes::Base>> &all) {
  return shapes::fold(all.begin(), all.end(), [](auto &one) { return one->area(); });
}
static int counted(std::map<std::string, int> &seen, const char *word) { return ++seen[word]; }
struct Local { int operator()(int x) const { return x * 3; } };
// Without optimisation gcc puts the functions of such classes below the functions that they stand in.
__attribute__((noinline)) static int nested(int n) {
  struct Held {
    int n;
    __attribute__((noinline)) int more(int x) {
      struct Inner {
        __attribute__((noinline)) static int most(int y) { return y + std::rand(); }
      };
      return Inner::most(x) * n;
    }
  };
  return Held{n}.more(n) + 1;
}
__attribute__((cold, noinline)) static void complain(int n) { std::fprintf(stderr, "%d\n", n); std::abort(); }
int main(int count, char **words) {
  std::vector<std::unique_ptr<shapes::Base>> all;
  std::map<std::string, int> seen;
  for (int i = 0; i < count; i++) {
    all.push_back(std::make_unique<shapes::Square<int>>(i));
    all.push_back(std::make_unique<shapes::Square<double>>(i * 0.5));
    counted(seen, words[i]);
  }
  std::vector<int> numbers(count * 10);
  for (auto &n : numbers) n = Local{}(std::rand());
  std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a % 10 < b % 10; });
  try { std::printf("%f %zu %d\n", total(all), seen.size(), numbers[0]); }
  catch (const std::exception &error) { if (count > 5) complain(count); std::puts(error.what()); }
  switch (count) { case 1: return 3; case 2: return numbers[1] + nested(count); case 3: complain(3); }
  return 0;
}
