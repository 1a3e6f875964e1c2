# cmake -DNAMESPACE= -DNAME= -DFILE= -DSOURCE= -P EmbedFile.cmake: writes SOURCE, which holds the bytes of FILE.
file(READ "${FILE}" bytes HEX)
string(LENGTH "${bytes}" length)
math(EXPR length "${length} / 2")
string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
file(WRITE "${SOURCE}" "// Made from ${FILE} by cmake/EmbedFile.cmake.
#include <string_view>

namespace ${NAMESPACE} {
extern const std::string_view ${NAME};
constinit const std::string_view ${NAME}(\"${bytes}\", ${length});
}  // namespace ${NAMESPACE}
")
