// Segments at Redis nodes: the stock of one SKU in a ledger, of which a node gives out a part. The node says which lane
// may try to pay from the node's row in the ledger; the row pays.
//
// Lane(l)   a lane that sells one unit per call. It asks the node, and pays from the node's row under the generation
//           that the node named, or from the ledger's segment, which is called `pool` here. If that is empty, it merges
//           the row into it. It moves units from the pool to the row, and then sends a fill to the node. It may be
//           killed at any step of a call; then it starts again without memory.
// Node      receives a lane's last fill at any time, once, several times or never.
//
// A transaction and a script are one step each. The row's fence is its generation. A lane that has learned that a
// generation is over asks for a later one.
//
// Invariants.
//  - The row is never below 0; pool + row + sold is what was granted.
//  - A refusal is true: all units are sold.
//  - What the node has to give out in the row's generation, and what it has given to lanes that have not paid yet, is at
//    most what the row has. This does not hold with ROLLBACK.
//  - A lane's payment fails at most once in a generation.
//
// ROLLBACK: the node is emptied, or goes back to a copy that was taken before, and forth again: that is two masters, too.
//
// Abstracted.
//  - A call wants one unit, there is one segment of the ledger, and a lane answers its calls one after another.
//  - Units that come back, latches and leases are in fleet_sold_out.pml; fences of lanes are in fleet_orders.pml. Here a
//    lane knows whether its transaction was committed, unless it was killed.
//
// Broken: NO_CHECK (no CHECK (units >= 0)), NO_FENCE (a payment does not compare the generation), MERGE_KEEPS_FENCE,
// FILL_BEFORE_COMMIT (the fill is sent although the transaction may fail), FILL_WITHOUT_NUMBER (a fill that arrives
// again counts again), FILL_KEEPS_UNITS (a later generation adds to
// the units of the node instead of replacing them), KEEP_SPARE (units that
// were given are kept although they have paid),
// REFUSE_BY_POOL (a refusal does not count the row), REFUSE_BY_NODE (an empty node is taken for sold out),
// KEEP_GENERATION (a lane whose payment failed asks for the same generation again).

#ifndef UNITS
#define UNITS 3
#endif
#ifndef CALLS
#define CALLS 2                 // Of each lane.
#endif
#ifndef FAULTS
#define FAULTS 1                // Kills, and with ROLLBACK what befalls the node.
#endif

// The ledger.
short pool = UNITS;
short row;
byte fence = 1;
byte fills;
byte sold;

// The node: generation, units, number of the last fill.
byte g;
byte n;
byte f;
#ifdef ROLLBACK
byte copy_g;
byte copy_n;
byte copy_f;
#endif

// The last fill of each lane.
byte fill_g[2];
byte fill_no[2];                // 0: none.

// Lanes.
byte generation[2];             // The oldest one that may not be over.
byte spare[2];                  // Units that the node has given in that generation.
bool paying[2];                 // One of them pays in the next transaction.
byte failed[2];                 // Ghost: the last generation in which a payment failed.
byte faults = FAULTS;

#define GIVEN(l_) (generation[l_] == fence -> spare[l_] + paying[l_] : 0)

inline Check() {
  assert(row >= 0 && pool >= 0);
  assert(pool + row + sold == UNITS);
#ifndef ROLLBACK
  assert((g == fence -> n : 0) + GIVEN(0) + GIVEN(1) <= row)
#endif
}

// Generations up to `over_` are over.
inline End(l_, over_) {
  if
  :: over_ >= generation[l_] ->
    generation[l_] = over_ + 1;
    spare[l_] = 0
  :: else
  fi
}

proctype Lane(byte l) {
  byte calls = CALLS;
  byte seen_fence;
  byte seen_fills;
  bool fails;

  do
  :: calls > 0 ->
ask:
    if
    :: atomic { spare[l] > 0 -> spare[l]--; paying[l] = true }
    :: atomic { spare[l] == 0 && g >= generation[l] && n > 0 ->  // take
        n--;
        if
        :: g > generation[l] -> End(l, g - 1)
        :: else
        fi;
        if
        :: paying[l] = true
        :: skip                 // The reply is lost.
        fi }
    :: spare[l] == 0            // The node has too few units, or is away.
#ifdef REFUSE_BY_NODE
      ;
      if
      :: atomic { g > 0 && n == 0 -> assert(sold == UNITS); calls--; goto next }
      :: else
      fi
#endif
    fi;
    if
    :: atomic { faults > 0 -> faults--; generation[l] = 0; spare[l] = 0; paying[l] = false; failed[l] = 0; goto next }
    :: skip
    fi;
    if
    :: paying[l] -> atomic {
        fails = row == 0 || fence != generation[l];
#ifdef NO_CHECK
        fails = fence != generation[l];
#endif
#ifdef NO_FENCE
        fails = row == 0;
#endif
        paying[l] = false;
        if
        :: !fails -> row--; sold++; calls--;
#ifdef KEEP_SPARE
          spare[l]++;
#endif
          Check();
          goto next
        :: !fails -> spare[l]++           // Another part of the packet fails.
        :: fails ->
          assert(generation[l] > failed[l]);
          failed[l] = generation[l];
#ifndef KEEP_GENERATION
          End(l, generation[l])
#endif
        fi;
        goto ask }
    :: else
    fi;
    // From the ledger.
    if
    :: atomic { pool > 0 -> pool--; sold++; calls--; Check() }
    :: atomic { pool == 0 && row > 0 ->   // A merge.
#ifdef REFUSE_BY_POOL
        assert(sold == UNITS);
#endif
        pool = row - 1; row = 0; sold++; calls--;
#ifndef MERGE_KEEPS_FENCE
        fence++;
#endif
        Check() }
    :: atomic { pool == 0 && row <= 0 -> assert(sold == UNITS); calls-- }
    fi;
next:
    if
    :: skip
    :: pool > 1 -> atomic {               // Fills the node.
        seen_fence = fence; seen_fills = fills;
        if
        :: generation[l] < seen_fence -> End(l, seen_fence - 1)
        :: else
        fi };
#ifdef FILL_BEFORE_COMMIT
      fill_g[l] = generation[l]; fill_no[l] = seen_fills + 1;
#endif
      if
      :: atomic { fence == seen_fence && fills == seen_fills && pool > 0 ->
          pool--; row++; fence = generation[l]; fills++;
          Check();
          fill_g[l] = fence; fill_no[l] = fills }
      :: else                             // Another lane was faster.
      fi
    fi
  :: else -> break
  od;
  atomic { spare[l] = 0; seen_fence = 0; seen_fills = 0; fails = false }
}

// The node receives the fill of lane l_.
inline Fill(l_) {
  atomic { fill_no[l_] > 0 &&
#ifdef FILL_WITHOUT_NUMBER
      g <= fill_g[l_] && n < UNITS ->
#else
      (g < fill_g[l_] || (g == fill_g[l_] && f < fill_no[l_])) ->
#endif
    if
    :: g < fill_g[l_] -> g = fill_g[l_]; f = fill_no[l_];
#ifdef FILL_KEEPS_UNITS
      n++
#else
      n = 1
#endif
    :: else -> n++; f = fill_no[l_]
    fi;
    Check() }
}

proctype Node() {
end:
  do
  :: Fill(0)
  :: Fill(1)
#ifdef ROLLBACK
  :: atomic { faults > 0 -> faults--; g = 0; n = 0; f = 0 }
  :: atomic { g > 0 -> copy_g = g; copy_n = n; copy_f = f }
  :: atomic { copy_g > 0 && faults > 0 -> faults--;
      copy_g = copy_g + g; g = copy_g - g; copy_g = copy_g - g;
      copy_n = copy_n + n; n = copy_n - n; copy_n = copy_n - n;
      copy_f = copy_f + f; f = copy_f - f; copy_f = copy_f - f }
#endif
  od
}

init {
  atomic { run Lane(0); run Lane(1); run Node() }
}
