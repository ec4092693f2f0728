// A program of a run that ends by an exception or by an assertion of C.
#include <cassert>
#include <cstring>
#include <new>
#include <stdexcept>

int main(int, char **argv) {
  if (!std::strcmp(argv[1], "bad_alloc")) throw std::bad_alloc();
  if (!std::strcmp(argv[1], "logic")) throw std::logic_error("stream is not open: decode step 4");
  int heads = argv[1][0] == 'a' ? 0 : 8;
  assert(heads > 0 && "heads must be positive");
  return 0;
}
