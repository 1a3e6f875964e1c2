# thinwire_compile(TARGET [TESTS]): how a target of this project is compiled. Nothing here reaches a project that
# uses the library.
#
# All loops over weights are in kernels/, which alone is compiled for speed: elsewhere a higher level costs minutes of
# compiling and gives nothing. The headers that nearly every file reads are read once, into a precompiled header a
# level.
function(thinwire_compile target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  # Contracted multiply-adds would make the last bit of a result depend on the compiler's mood and on the CPU.
  target_compile_options(${target} PRIVATE -fPIC -Wall -Wextra -Wno-unused-parameter -ffp-contract=off -fno-math-errno)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-stringop-overflow)  # GCC 12 imagines them inside std::string
  endif()
  if(THINWIRE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${THINWIRE_SANITIZE} -fno-omit-frame-pointer -g1)
    target_link_options(${target} PUBLIC -fsanitize=${THINWIRE_SANITIZE})
    target_compile_definitions(${target} PRIVATE THINWIRE_SANITIZED)
  endif()

  if(target STREQUAL thinwire_kernels)
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3>)
    return()
  elseif(ARGN STREQUAL TESTS)
    set(level -O0)
    set(owner thinwire_precompiled_tests)
  else()
    set(level -O1)
    set(owner thinwire_precompiled)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # or ccache refuses
  endif()
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h)
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# The owners of the precompiled headers: a source file that is empty.
foreach(owner thinwire_precompiled thinwire_precompiled_tests)
  if(owner STREQUAL thinwire_precompiled_tests AND NOT THINWIRE_TESTS)
    continue()
  endif()
  file(WRITE ${PROJECT_BINARY_DIR}/${owner}.cpp "")
  add_library(${owner} OBJECT ${PROJECT_BINARY_DIR}/${owner}.cpp)
  target_link_libraries(${owner} PRIVATE thinwire::LibTorch nlohmann_json::nlohmann_json)
endforeach()
thinwire_compile(thinwire_precompiled)
if(THINWIRE_TESTS)
  find_package(GTest REQUIRED)
  target_link_libraries(thinwire_precompiled_tests PRIVATE GTest::gtest)
  thinwire_compile(thinwire_precompiled_tests TESTS)
  target_precompile_headers(thinwire_precompiled_tests PRIVATE <gtest/gtest.h>)
endif()
