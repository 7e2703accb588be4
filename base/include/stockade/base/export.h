#ifndef STOCKADE_BASE_EXPORT_H_
#define STOCKADE_BASE_EXPORT_H_

// Every public header includes this one before any code of its own, so that a compiler whose options do not fit says
// that and nothing else: the header that is not found ends the compilation.
#if __cplusplus < 202002L
#error "Stockade needs C++20: compile with -std=c++20 or later"
#include <stockade_needs_cpp20>
#elif !defined(__cpp_exceptions)
#error "Stockade needs exceptions: compile without -fno-exceptions"
#include <stockade_needs_exceptions>
#endif

// Marks what a shared library of ours shows; all else is hidden, also from one another (-fvisibility=hidden). It stands
// on every public class and function that has code in a .cc, on public classes with virtual functions, and on those of
// stockade::internal that another of our libraries, or what public headers inline, calls. The same for who builds and
// who uses the library, and nothing to a static one.
#define STOCKADE_EXPORT [[gnu::visibility("default")]]

#endif  // STOCKADE_BASE_EXPORT_H_
