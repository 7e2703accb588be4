#ifndef STOCKADE_EXAMPLES_FLEET_SALE_PAGE_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_PAGE_H_

namespace fleet_sale {

// Made by CMake. The page, whole: page/index.html with its style and scripts in it.
extern const char kPage[];

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_PAGE_H_
