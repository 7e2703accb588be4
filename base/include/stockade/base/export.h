#ifndef STOCKADE_BASE_EXPORT_H_
#define STOCKADE_BASE_EXPORT_H_

// Marks what a shared library of ours shows; all else is hidden, also from one another (-fvisibility=hidden). It stands
// on every public class and function that has code in a .cc, on public classes with virtual functions, and on those of
// stockade::internal that another of our libraries, or what public headers inline, calls. The same for who builds and
// who uses the library, and nothing to a static one.
#define STOCKADE_EXPORT [[gnu::visibility("default")]]

#endif  // STOCKADE_BASE_EXPORT_H_
