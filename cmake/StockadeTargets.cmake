# stockade_add_library(<module> SOURCES ... [PUBLIC ...] [PRIVATE ...])
#
# The library stockade_<module>, called stockade::<module> in the tree and installed alike. Its public headers are in the
# calling folder's include/. Our own flags stay private: nothing but C++20 reaches a user.
# Static unless BUILD_SHARED_LIBS is on.
function(stockade_add_library module)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC;PRIVATE")
  set(target stockade_${module})
  add_library(${target} ${arg_SOURCES})
  add_library(stockade::${module} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${module}
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden  # base/export.h
    VISIBILITY_INLINES_HIDDEN ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # Until 1.0 each minor version may break.
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  stockade_own_flags(${target})
  set_property(GLOBAL APPEND PROPERTY STOCKADE_LIBRARIES ${target})
  set_property(GLOBAL APPEND PROPERTY STOCKADE_HEADER_DIRS "${CMAKE_CURRENT_SOURCE_DIR}/include/")
endfunction()

# Warnings and sanitizers for a target of ours.
function(stockade_own_flags target)
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # What g++ 12 sees in libstdc++'s headers, in optional and string, is not there.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-restrict -Wno-tsan)
  endif()
  if(STOCKADE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(STOCKADE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${STOCKADE_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${STOCKADE_SANITIZE})
    if(STOCKADE_SANITIZE MATCHES undefined)
      target_compile_options(${target} PRIVATE -fno-sanitize-recover=undefined)
    endif()
  endif()
endfunction()

# stockade_add_executable(<target> SOURCES ... [LIBRARIES ...])
function(stockade_add_executable target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_executable(${target} ${arg_SOURCES})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
  stockade_own_flags(${target})
  if(STOCKADE_SANITIZE MATCHES undefined)
    # What it finds in a program is the same, in half of the time that g++ takes for the checks with optimisation.
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()
