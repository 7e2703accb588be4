-- Orders for wrk: each of one unit of some product, by a buyer of its own and with a fresh key.
--   wrk -t2 -c32 -d10s -s examples/flash_sale/order.lua http://127.0.0.1:9464
-- Products of the default page views; not 1, which is the one that was on sale.
local threads = 0

function setup(thread)
  thread:set("thread_number", threads)
  threads = threads + 1
end

function init()
  math.randomseed(os.time() + thread_number)
  run = string.format("%d.%d.%d", os.time(), thread_number, math.random(1e9))
  sent = 0
end

function request()
  sent = sent + 1
  local key = run .. "." .. sent
  local body = string.format('{"product": %d, "quantity": 1, "buyer": "%s"}', math.random(2, 1000), key)
  return wrk.format("POST", "/orders", {["Content-Type"] = "application/json", ["Idempotency-Key"] = key}, body)
end
