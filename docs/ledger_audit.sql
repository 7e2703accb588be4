-- Checks the invariants of a ledger's file, which hold even after its process crashed. Each statement returns one row
-- for each error that it finds, and no row if there is none. Run it while no process has the ledger open:
--   sqlite3 orders.db < ledger_audit.sql
-- It does not check the checksums of pages; tools/ledger_audit does.

-- The lines of orders, as they were granted and without what came back, and of journal records. A basket has several
-- lines, any other order has one. The views are temporary and end with the connection.
CREATE TEMP VIEW came_back AS
  SELECT c.order_id, position, c.kind, l.sku, l.quantity, to_stock FROM changes c JOIN change_lines l USING (position);
CREATE TEMP VIEW granted_lines AS
  SELECT order_id, position, state, buyer, sku, quantity FROM orders WHERE sku IS NOT NULL
  UNION ALL SELECT order_id, position, state, buyer, l.sku, l.quantity FROM orders JOIN order_lines l USING (order_id);
CREATE TEMP VIEW sold_lines AS
  SELECT order_id, position, state, buyer, sku,
    quantity - coalesce((SELECT sum(b.quantity) FROM came_back b WHERE b.order_id = g.order_id AND b.sku = g.sku), 0)
      AS quantity
  FROM granted_lines g;
CREATE TEMP VIEW steps AS
  SELECT position, kind, order_id, sku, quantity FROM journal WHERE sku IS NOT NULL
  UNION ALL SELECT position, kind, order_id, l.sku, l.quantity FROM journal JOIN journal_lines l USING (position);
-- The positions at which each SKU was added and removed. Positions up to ledger.journal_start have been folded into the
-- tables.
CREATE TEMP VIEW comings AS
  SELECT sku, position AS added_at, NULL AS removed_at FROM journal WHERE kind = 'add_sku'
  UNION ALL SELECT sku, NULL, position FROM journal WHERE kind = 'remove_sku'
  UNION ALL SELECT sku, journal_start, NULL FROM skus JOIN ledger WHERE start_granted IS NOT NULL
  UNION ALL SELECT sku, NULL, journal_start FROM skus JOIN ledger WHERE start_removed = 1;
-- The units granted and taken for each SKU at the start of the journal, and the change by each record. Units that come
-- back to a removed SKU are withdrawn.
CREATE TEMP VIEW moves AS
  SELECT journal_start AS position, sku, start_granted AS granted, sold_forgotten AS taken FROM skus JOIN ledger
  WHERE start_granted IS NOT NULL
  UNION ALL SELECT journal_start, sku, 0, quantity FROM granted_lines JOIN ledger WHERE position <= journal_start
  UNION ALL SELECT journal_start, sku, 0, -quantity FROM came_back JOIN ledger WHERE position <= journal_start
  UNION ALL
  SELECT position, sku,
    CASE WHEN kind IN ('add_sku', 'restock') THEN quantity
         WHEN kind IN ('remove_sku', 'write_off') THEN -quantity
         WHEN kind IN ('cancel', 'expire', 'return') AND position > removed_at THEN -quantity
         ELSE 0 END,
    CASE WHEN kind IN ('reserve', 'take', 'reserve_basket') THEN quantity
         WHEN kind IN ('cancel', 'expire', 'return', 'write_off') THEN -quantity
         ELSE 0 END
  FROM steps LEFT JOIN (SELECT sku, removed_at FROM comings WHERE removed_at IS NOT NULL) USING (sku);

-- file: a page or an index is damaged, or a row refers to a row that does not exist
SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'
UNION ALL SELECT "table" || ': row without its ' || parent FROM pragma_foreign_key_check;

-- stock: a SKU has more units held and sold than granted, or a removed SKU has units left
WITH taken AS (SELECT sku, sum(quantity) AS units FROM sold_lines WHERE state IN ('held', 'sold') GROUP BY sku)
SELECT sku, granted, sold_forgotten, coalesce(units, 0) AS taken, removed FROM skus LEFT JOIN taken USING (sku)
WHERE sold_forgotten + coalesce(units, 0) > granted OR (removed AND sold_forgotten + coalesce(units, 0) <> granted);

-- history: at some position the units taken from a SKU exceed those granted, or are negative
SELECT position, sku, granted, taken
FROM (SELECT position, sku, sum(granted) OVER upto AS granted, sum(taken) OVER upto AS taken
      FROM moves WINDOW upto AS (PARTITION BY sku ORDER BY position))
WHERE taken > granted OR taken < 0;

-- totals: the units of a SKU at the end of the journal differ from those in the tables
WITH told AS (SELECT sku, sum(granted) AS granted, sum(taken) AS taken FROM moves GROUP BY sku),
     taken AS (SELECT sku, sum(quantity) AS units FROM sold_lines WHERE state IN ('held', 'sold') GROUP BY sku)
SELECT sku, skus.granted, sold_forgotten, coalesce(units, 0) AS taken, told.granted AS granted_told,
  told.taken AS taken_told
FROM skus LEFT JOIN told USING (sku) LEFT JOIN taken USING (sku)
WHERE told.granted IS NOT skus.granted OR told.taken IS NOT sold_forgotten + coalesce(units, 0);

-- start: at the start of the journal, a SKU's available units differ from its granted units less those sold and held
SELECT sku, start_granted, sold_forgotten, start_available, sum(moves.granted) - sum(taken) AS told
FROM skus JOIN ledger JOIN moves USING (sku) WHERE position = journal_start GROUP BY sku HAVING told <> start_available;

-- gaps: a position is missing
SELECT position, before
FROM (SELECT position, lag(position, 1, (SELECT journal_start FROM ledger)) OVER (ORDER BY position) AS before
      FROM journal)
WHERE position IS NOT before + 1;

-- skus: a SKU is unknown, was added or removed twice, or was sold or restocked before it was added or after its removal
WITH lives AS (SELECT sku, min(added_at) AS added_at, min(removed_at) AS removed_at, count(added_at) AS times_added,
                 count(removed_at) AS times_removed FROM comings GROUP BY sku)
SELECT position, kind, sku, added_at, removed_at
FROM steps LEFT JOIN lives USING (sku) LEFT JOIN skus known USING (sku)
WHERE known.granted IS NULL OR added_at IS NULL OR position < added_at
   OR (kind IN ('reserve', 'take', 'reserve_basket', 'restock') AND position > removed_at)
UNION ALL
SELECT NULL, 'as the table says', sku, added_at, removed_at FROM skus LEFT JOIN lives USING (sku)
WHERE times_added IS NOT 1 OR times_removed <> removed;

-- orders: an order is not granted exactly once in the journal; or it has ended, but not exactly once after its grant;
-- or it is extended in only one of the journal and the table; or the journal and the tables differ otherwise
WITH told AS (SELECT order_id,
                count(*) FILTER (WHERE kind IN ('reserve', 'take', 'reserve_basket')) AS grants,
                count(*) FILTER (WHERE kind IN ('take', 'commit', 'cancel', 'expire')) AS ends,
                min(kind) FILTER (WHERE kind IN ('reserve', 'take', 'reserve_basket')) AS granted_by,
                min(kind) FILTER (WHERE kind IN ('take', 'commit', 'cancel', 'expire')) AS ended_by,
                count(*) FILTER (WHERE kind = 'extend') AS extensions,
                max(at_us) FILTER (WHERE kind IN ('take', 'commit', 'cancel', 'expire')) AS ended_at_us,
                min(position) AS begins,
                count(DISTINCT sku) <= 1 AND count(DISTINCT quantity) <= 1 AND count(sku) IN (0, count(*)) AS agrees,
                min(sku) AS sku, min(quantity) AS quantity
              FROM journal WHERE order_id IS NOT NULL AND kind NOT IN ('restock', 'return', 'write_off')
              GROUP BY order_id)
SELECT order_id, state, position, begins, grants, ends, granted_by, ended_by
FROM orders o JOIN ledger LEFT JOIN told t USING (order_id)
WHERE NOT (position <= journal_start AND (state = 'held' OR end_folded) AND begins IS NULL)
  AND (grants IS NOT (position > journal_start) OR ends IS NOT (state <> 'held') OR NOT agrees
       OR (grants AND begins <> position) OR t.sku IS NOT o.sku OR t.quantity IS NOT o.quantity
       OR ended_at_us IS NOT settled_at_us
       OR (extended_us > 0) < (extensions > 0) OR (extended_us > 0 AND extensions = 0 AND position > journal_start)
       OR granted_by <> CASE WHEN NOT reserved THEN 'take' WHEN o.sku IS NULL THEN 'reserve_basket' ELSE 'reserve' END
       OR ended_by IS NOT CASE WHEN state = 'held' THEN NULL WHEN state = 'cancelled' THEN 'cancel'
                               WHEN state = 'expired' THEN 'expire' WHEN reserved THEN 'commit' ELSE 'take' END)
UNION ALL
SELECT order_id, 'in the journal only', NULL, begins, grants, ends, granted_by, ended_by
FROM told t LEFT JOIN orders o USING (order_id) WHERE o.state IS NULL;

-- lines: the lines of a basket differ between the tables and one of its positions in the journal, or it has no lines
SELECT position, order_id, line, sku, quantity FROM (
  SELECT j.position, order_id, line, l.sku, l.quantity FROM journal j JOIN order_lines l USING (order_id)
  WHERE kind NOT IN ('return', 'write_off')
  EXCEPT SELECT position, order_id, line, l.sku, l.quantity FROM journal JOIN journal_lines l USING (position))
UNION ALL
SELECT position, order_id, line, sku, quantity FROM (
  SELECT position, order_id, line, l.sku, l.quantity FROM journal JOIN journal_lines l USING (position)
  WHERE kind NOT IN ('return', 'write_off')
  EXCEPT SELECT j.position, order_id, line, l.sku, l.quantity FROM journal j JOIN order_lines l USING (order_id))
UNION ALL
SELECT NULL, order_id, line, l.sku, l.quantity FROM orders o LEFT JOIN order_lines l USING (order_id)
WHERE (o.sku IS NULL) <> (line IS NOT NULL);

-- returns: a return differs between the tables and the journal, or is of an order that is not sold, or does not have
-- these units; or an order is kept whose sale and returns have all been folded
SELECT position, c.order_id, j.kind, c.at_us AS units, j.at_us AS told
FROM changes c JOIN ledger LEFT JOIN journal j USING (position)
WHERE position > journal_start AND (j.kind IS NOT c.kind OR j.order_id IS NOT c.order_id OR j.at_us IS NOT c.at_us)
UNION ALL
SELECT position, order_id, kind, sku, quantity FROM (
  SELECT position, order_id, kind, sku, quantity FROM came_back JOIN ledger WHERE position > journal_start
  EXCEPT SELECT position, order_id, kind, sku, quantity FROM steps)
UNION ALL
SELECT position, order_id, kind, sku, quantity FROM (
  SELECT position, order_id, kind, sku, quantity FROM steps WHERE kind IN ('return', 'write_off')
  EXCEPT SELECT position, order_id, kind, sku, quantity FROM came_back)
UNION ALL
SELECT c.position, c.order_id, o.state, l.sku, l.quantity
FROM changes c LEFT JOIN change_lines l USING (position) LEFT JOIN orders o ON o.order_id = c.order_id
  LEFT JOIN granted_lines g ON g.order_id = c.order_id AND g.sku = l.sku
WHERE o.state IS NOT 'sold' OR g.quantity IS NULL OR (l.to_stock AND c.kind = 'write_off')
UNION ALL
SELECT position, order_id, state, sku, quantity FROM sold_lines WHERE quantity < 0
UNION ALL
SELECT position, order_id, state, NULL, NULL FROM orders o JOIN ledger
WHERE end_folded AND NOT EXISTS (SELECT 1 FROM changes c WHERE c.order_id = o.order_id AND c.position > journal_start);

-- restocks: a restock with a request id differs between the table and the journal
SELECT position, r.order_id, kind, r.sku, r.quantity FROM restocks r LEFT JOIN journal j USING (position)
WHERE kind IS NOT 'restock' OR j.order_id IS NOT r.order_id OR j.sku IS NOT r.sku OR j.quantity IS NOT r.quantity
   OR j.at_us IS NOT r.at_us
UNION ALL
SELECT position, j.order_id, kind, j.sku, j.quantity FROM journal j LEFT JOIN restocks r USING (position)
WHERE kind = 'restock' AND j.order_id IS NOT NULL AND r.order_id IS NULL;

-- requests: a request id has more than one order, return or restock
SELECT request_id, count(*) AS times
FROM (SELECT request_id FROM orders UNION ALL SELECT request_id FROM changes UNION ALL SELECT request_id FROM restocks)
GROUP BY request_id HAVING count(*) > 1;

-- buyers: a buyer has more units of a SKU than its limit, including those of forgotten orders; or the units that buyers
-- bought by forgotten orders do not add up to sold_forgotten; or a SKU without a limit has such units. Units of a
-- removed SKU are no longer added there, and all of them are deleted when its removal is folded.
SELECT sku, buyer, sum(units) AS units, per_buyer_limit
FROM (SELECT sku, buyer, quantity AS units FROM sold_lines WHERE state IN ('held', 'sold')
      UNION ALL SELECT sku, buyer, units FROM bought) JOIN skus USING (sku)
WHERE per_buyer_limit > 0 GROUP BY sku, buyer HAVING sum(units) > per_buyer_limit
UNION ALL
SELECT sku, 'all', coalesce(sum(units), 0), sold_forgotten FROM skus LEFT JOIN bought USING (sku) GROUP BY sku
HAVING CASE WHEN per_buyer_limit = 0 OR start_removed THEN sum(units) > 0
            WHEN removed THEN sum(units) > sold_forgotten
            ELSE coalesce(sum(units), 0) <> sold_forgotten END;
