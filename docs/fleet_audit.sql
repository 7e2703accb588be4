-- Checks the invariants of the tables of a fleet, which hold at every moment, also while processes sell and after any
-- of them, or the server, has crashed. Each statement returns one row for each error that it finds, and no row if there
-- is none. Put the prefix of the fleet (FleetInventoryOptions::fleet) in place of {fleet}:
--   sed 's/{fleet}/shop/g' fleet_audit.sql | mariadb --batch database
-- Each statement reads one snapshot, so no process has to stop. It takes no lock, but reads whole tables.

-- stock: the units granted to a SKU differ from those that are available, in limbo, held and sold
SELECT s.sku, s.granted, SUM(t.units) AS available, s.limbo, SUM(t.held) AS held, SUM(t.sold) AS sold
FROM {fleet}_skus s LEFT JOIN {fleet}_stock t ON t.sku_id = s.sku_id
GROUP BY s.sku_id, s.sku, s.granted, s.limbo
HAVING NOT s.granted <=> s.limbo + SUM(t.units) + SUM(t.held) + SUM(t.sold);

-- latch: a SKU's mode is none, units are for sale although it is latched or in limbo although it is not draining, or a
-- segment differs from the SKU
SELECT s.sku, s.mode, s.limbo, t.segment, t.units, t.latched
FROM {fleet}_skus s LEFT JOIN {fleet}_stock t ON t.sku_id = s.sku_id
WHERE s.mode NOT BETWEEN 0 AND 2 OR s.limbo < 0 OR (s.limbo <> 0 AND s.mode <> 2) OR (s.removed = 1 AND s.mode <> 0)
   OR t.latched <> (s.mode <> 0) OR (t.latched <> 0 AND t.units <> 0);

-- units: a segment has fewer than no units, which is what oversold means; or a removed SKU has units for sale
SELECT t.sku_id, t.segment, t.units, s.removed
FROM {fleet}_stock t LEFT JOIN {fleet}_skus s ON s.sku_id = t.sku_id
WHERE t.units < 0 OR (s.removed = 1 AND t.units <> 0);

-- segments: a SKU does not have its segments 0, 1, 2, ... of the ledger, or a segment has no SKU
SELECT s.sku, s.segments, COUNT(t.segment) AS rows_there, MIN(t.segment) AS first, MAX(t.segment) AS last
FROM {fleet}_skus s LEFT JOIN {fleet}_stock t ON t.sku_id = s.sku_id AND t.segment < 1000000
GROUP BY s.sku_id, s.sku, s.segments
HAVING COUNT(t.segment) <> s.segments OR MIN(t.segment) <> 0 OR MAX(t.segment) <> s.segments - 1
UNION ALL
SELECT 'no SKU', t.sku_id, NULL, t.segment, NULL
FROM {fleet}_stock t LEFT JOIN {fleet}_skus s ON s.sku_id = t.sku_id WHERE s.sku_id IS NULL;

-- nodes: a segment of a Redis node (1000000 + node_id) has no such node, no generation or no fill, or its SKU has no
-- Redis segments; or a segment of the ledger has a generation
SELECT s.sku, t.segment, t.fence, t.fills
FROM {fleet}_stock t LEFT JOIN {fleet}_skus s ON s.sku_id = t.sku_id
LEFT JOIN {fleet}_nodes n ON n.node_id = t.segment - 1000000
WHERE IF(t.segment < 1000000, t.fence <> 0 OR t.fills <> 0,
  n.node_id IS NULL OR t.fence < 1 OR t.fills < 1 OR NOT s.redis_segments <=> 1);

-- totals: the units that segments say are held or sold differ from those of the orders, less what came back of these.
-- Orders that are forgotten are in sold_forgotten.
WITH one_line AS (
       SELECT o.state, o.sku_id, o.quantity FROM {fleet}_orders o WHERE o.kind IN (0, 1)
       UNION ALL SELECT o.state, l.sku_id, l.quantity
       FROM {fleet}_orders o JOIN {fleet}_order_lines l ON l.order_id = o.order_id WHERE o.kind = 2
       UNION ALL SELECT o.state, c.sku_id, -c.quantity
       FROM {fleet}_orders o JOIN {fleet}_changes c ON c.order_id = o.order_id),
     ordered AS (
       SELECT sku_id, SUM(IF(state = 0, quantity, 0)) AS held, SUM(IF(state = 1, quantity, 0)) AS sold
       FROM one_line GROUP BY sku_id),
     counted AS (SELECT sku_id, SUM(held) AS held, SUM(sold) AS sold FROM {fleet}_stock GROUP BY sku_id)
SELECT s.sku, c.held AS held_in_stock, COALESCE(o.held, 0) AS held_in_orders, c.sold AS sold_in_stock,
  s.sold_forgotten + COALESCE(o.sold, 0) AS sold_in_orders
FROM {fleet}_skus s LEFT JOIN counted c ON c.sku_id = s.sku_id LEFT JOIN ordered o ON o.sku_id = s.sku_id
WHERE NOT c.held <=> COALESCE(o.held, 0) OR NOT c.sold <=> s.sold_forgotten + COALESCE(o.sold, 0)
   OR s.sold_forgotten < 0;

-- unknown: an order is of a SKU that there is not
SELECT o.order_id, o.sku_id FROM {fleet}_orders o LEFT JOIN {fleet}_skus s ON s.sku_id = o.sku_id
WHERE o.kind <> 2 AND s.sku_id IS NULL
UNION ALL
SELECT l.order_id, l.sku_id FROM {fleet}_order_lines l LEFT JOIN {fleet}_skus s ON s.sku_id = l.sku_id
WHERE s.sku_id IS NULL;

-- requests: the request id of an order or of a change is not there, or has another order: so it has taken units twice
SELECT o.order_id, HEX(o.request) AS request, r.order_id AS order_of_request
FROM {fleet}_orders o LEFT JOIN {fleet}_requests r ON r.id = o.request
WHERE NOT r.order_id <=> o.order_id
UNION ALL
SELECT c.order_id, HEX(c.request), r.order_id
FROM {fleet}_changes c LEFT JOIN {fleet}_requests r ON r.id = c.request
WHERE NOT r.order_id <=> c.order_id;

-- changes: a change has no order that is sold, or a version that the order never had; what came back is not a part of
-- the order, or more than that; what was written off went to stock; or the lines of a change do not belong together
WITH sold_line AS (
       SELECT o.order_id, o.sku_id, o.quantity FROM {fleet}_orders o WHERE o.kind IN (0, 1)
       UNION ALL SELECT o.order_id, l.sku_id, l.quantity
       FROM {fleet}_orders o JOIN {fleet}_order_lines l ON l.order_id = o.order_id WHERE o.kind = 2)
SELECT c.order_id, c.version, c.sku_id, c.quantity, c.kind
FROM {fleet}_changes c LEFT JOIN {fleet}_orders o ON o.order_id = c.order_id
LEFT JOIN sold_line l ON l.order_id = c.order_id AND l.sku_id = c.sku_id
WHERE NOT o.state <=> 1 OR c.version NOT BETWEEN 1 AND o.version OR l.quantity IS NULL OR c.quantity < 1
   OR c.kind NOT BETWEEN 0 AND 1 OR c.of_all NOT BETWEEN 0 AND 1 OR c.to_stock NOT BETWEEN 0 AND 1 - c.kind
   OR c.at > o.at
UNION ALL
SELECT l.order_id, NULL, l.sku_id, SUM(c.quantity), NULL
FROM sold_line l JOIN {fleet}_changes c ON c.order_id = l.order_id AND c.sku_id = l.sku_id
GROUP BY l.order_id, l.sku_id, l.quantity HAVING SUM(c.quantity) > l.quantity
UNION ALL
SELECT order_id, version, NULL, COUNT(*), MIN(kind) FROM {fleet}_changes GROUP BY order_id, version
HAVING COUNT(DISTINCT request) > 1 OR COUNT(DISTINCT kind) > 1 OR COUNT(DISTINCT of_all) > 1;

-- orders: the kind or the state of an order is none, a take or a restock is not sold, the quantity is not one that can
-- be asked for, or a reservation's end is not that of its ttl, and it was not extended
SELECT order_id, kind, state, quantity, created_at, ttl_us, at, version
FROM {fleet}_orders
WHERE kind NOT BETWEEN 0 AND 3 OR state NOT BETWEEN 0 AND 3 OR (kind IN (0, 3) AND state <> 1)
   OR (kind = 2 AND (sku_id <> 0 OR quantity <> 0)) OR (kind <> 2 AND quantity < 1)
   OR version < 0
   OR (state = 0 AND IF(ttl_us = 9223372036854775807, at <> ttl_us,
     at < created_at + ttl_us OR (version = 0 AND at <> created_at + ttl_us)));

-- lines: a basket has no lines, or lines have no basket, or no units
SELECT o.order_id, o.kind, l.sku_id, l.quantity
FROM {fleet}_orders o LEFT JOIN {fleet}_order_lines l ON l.order_id = o.order_id
WHERE (o.kind = 2) <> (l.order_id IS NOT NULL) OR l.quantity < 1
UNION ALL
SELECT l.order_id, NULL, l.sku_id, l.quantity
FROM {fleet}_order_lines l LEFT JOIN {fleet}_orders o ON o.order_id = l.order_id WHERE o.order_id IS NULL;

-- lanes: an order was written under a fence that its lane never had
SELECT o.order_id, o.fence, l.fence AS fence_of_lane
FROM {fleet}_orders o JOIN {fleet}_lanes l ON l.lane_id = o.order_id >> 32
WHERE o.fence > l.fence OR o.fence < 1;

-- buyers: a buyer has more units of a SKU than the limit, has another limit than the SKU, or has units that differ from
-- the orders. Orders that are forgotten are in the buyer's units, too.
WITH one_line AS (
       SELECT o.state, o.buyer, o.sku_id, o.quantity FROM {fleet}_orders o WHERE o.kind IN (0, 1)
       UNION ALL SELECT o.state, o.buyer, l.sku_id, l.quantity
       FROM {fleet}_orders o JOIN {fleet}_order_lines l ON l.order_id = o.order_id WHERE o.kind = 2
       UNION ALL SELECT o.state, o.buyer, c.sku_id, -c.quantity
       FROM {fleet}_orders o JOIN {fleet}_changes c ON c.order_id = o.order_id),
     ordered AS (
       SELECT l.sku_id, l.buyer, SUM(l.quantity) AS units
       FROM one_line l JOIN {fleet}_skus s ON s.sku_id = l.sku_id
       WHERE l.state IN (0, 1) AND s.per_buyer_limit > 0 AND s.removed = 0 GROUP BY l.sku_id, l.buyer),
     both_sides AS (
       SELECT b.sku_id, b.buyer, b.units, b.most, COALESCE(o.units, 0) AS ordered
       FROM {fleet}_buyers b LEFT JOIN ordered o ON o.sku_id = b.sku_id AND o.buyer = b.buyer
       UNION ALL SELECT o.sku_id, o.buyer, 0, NULL, o.units
       FROM ordered o LEFT JOIN {fleet}_buyers b ON b.sku_id = o.sku_id AND b.buyer = o.buyer
       WHERE b.buyer IS NULL)
SELECT s.sku, HEX(b.buyer) AS buyer, b.units, b.most, b.ordered, s.per_buyer_limit
FROM both_sides b JOIN {fleet}_skus s ON s.sku_id = b.sku_id
WHERE s.removed = 0 AND (b.units > s.per_buyer_limit OR b.units < b.ordered OR NOT b.most <=> s.per_buyer_limit)
UNION ALL
SELECT s.sku, 'all', SUM(b.units), NULL, SUM(b.ordered), s.sold_forgotten
FROM both_sides b JOIN {fleet}_skus s ON s.sku_id = b.sku_id
WHERE s.removed = 0 GROUP BY s.sku_id, s.sku, s.sold_forgotten
HAVING SUM(b.units) - SUM(b.ordered) <> s.sold_forgotten;

-- fleet: the row is missing that says which process does the upkeep. No reservation expires without it
SELECT 'missing' AS fleet_row FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM {fleet}_fleet WHERE one = 1);
