// CMake makes a precompiled header for a source that uses it only.
