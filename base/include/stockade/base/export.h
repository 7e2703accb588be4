#ifndef STOCKADE_BASE_EXPORT_H_
#define STOCKADE_BASE_EXPORT_H_

// Every public header includes this one before any code of its own. If the compiler options do not fit, the compiler
// reports that alone: the include of a missing header ends the compilation.
#if __cplusplus < 202002L
#error "Stockade needs C++20: compile with -std=c++20 or later"
#include <stockade_needs_cpp20>
#elif !defined(__cpp_exceptions)
#error "Stockade needs exceptions: compile without -fno-exceptions"
#include <stockade_needs_exceptions>
#endif

// Exports a symbol from a shared library of Stockade. All other symbols are hidden (-fvisibility=hidden), also from
// Stockade's other libraries. The macro belongs on every public class and function that has code in a .cc file, on
// public classes with virtual functions, and on symbols of stockade::internal that another Stockade library or inline
// code in a public header uses. It expands to the same attribute when the library is built and when it is used, and has
// no effect on static libraries.
#define STOCKADE_EXPORT [[gnu::visibility("default")]]

#endif  // STOCKADE_BASE_EXPORT_H_
