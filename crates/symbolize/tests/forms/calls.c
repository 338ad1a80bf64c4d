// No header: those of another word size may not be there.
int rand(void);
void abort(void);
int printf(const char *, ...);
void qsort(void *, unsigned long, unsigned long, int (*)(const void *, const void *));
static inline __attribute__((always_inline)) int inner(int x) { return x * 3 + rand(); }
static inline int middle(int x) { int s = 0; for (int i = 0; i < x; i++) s += inner(i); return s; }
__attribute__((noinline)) int outer(int x) { return middle(x) + 7; }
__attribute__((noinline)) static int local(int x) { if (x > 100) abort(); return outer(x) * 2; }
__attribute__((noinline)) int tail(int x) { return local(x + 1); }
int main(int n, char **w) { for (int i = 0; i < n; i++) printf("%d %s\n", tail(i), w[i]); qsort(w, n, sizeof *w, (int (*)(const void *, const void *))tail); return 0; }
