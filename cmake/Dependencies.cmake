# What the library leans on, found the same way when it is built and when an installed copy is used (find_package).
include(${CMAKE_CURRENT_LIST_DIR}/LibTorch.cmake)
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)

find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
if(NOT TARGET thinwire::xxhash)
  add_library(thinwire::xxhash INTERFACE IMPORTED GLOBAL)
  target_include_directories(thinwire::xxhash INTERFACE ${XXHASH_INCLUDE})
  target_link_libraries(thinwire::xxhash INTERFACE ${XXHASH_LIBRARY})
endif()

if(NOT THINWIRE_SANITIZE MATCHES thread)  # at::parallel_for is a plain loop without it; the sanitizer cannot see through it
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
