#ifndef STOCKADE_EXAMPLES_FLASH_SALE_PAGE_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_PAGE_H_

namespace flash_sale {

// Both are made by CMake. The page, whole: page/index.html with its style and scripts in it.
extern const char kPage[];
// The description of the API: its part of README.md.
extern const char kApiText[];

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_PAGE_H_
