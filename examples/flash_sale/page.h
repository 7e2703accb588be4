#ifndef STOCKADE_EXAMPLES_FLASH_SALE_PAGE_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_PAGE_H_

namespace flash_sale {

// The page, whole: page/index.html with its style and scripts in it. Made by CMake.
extern const char kPage[];

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_PAGE_H_
