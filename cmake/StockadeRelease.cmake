# The address and the tag of this version's release. All documents that name them have these; scripts/try-readme compares
# README.md with them. Neither exists yet: the maintainer who publishes Stockade sets the address, here and there, and
# makes the tag of the version in CMakeLists.txt.
set(STOCKADE_REPOSITORY https://stockade.example/stockade.git)
set(STOCKADE_TAG v${PROJECT_VERSION})
