#ifndef STOCKADE_EXAMPLES_FLEET_SALE_FLEET_AUDIT_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_FLEET_AUDIT_H_

namespace fleet_sale {

// Made by CMake: docs/fleet_audit.sql, for the fleet of StockadeShop.
extern const char kFleetAudit[];

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_FLEET_AUDIT_H_
