// How a fleet lets a reservation last longer: fleet_plan.h decides by what it has read of the order, and the packet
// names the order's version as read. fleet_orders.pml shows that packets are neither lost nor repeated, so a packet is
// one step here. What a call has READ before its packet is a step of its own.
//
// Extender(u)   asks for the end u.
// Upkeep        lets the order expire when it is due.
// World         time passes, and the database's clock is set back once; somebody commits the order.
//
// Invariants.
//  - While the order is held, it ends no earlier than any call has been told.
//  - It expires only if it is due in the packet, not only when it was read.
//
// Broken: NO_VERSION (the packet does not name what was read: the second of two extensions writes an earlier end over a
// later one), EXPIRE_BY_READ (the packet of an expiry does not compare the time).

#define HELD 0
#define SOLD 1
#define EXPIRED 2

byte state;
byte at = 1;
byte version;
byte now;
byte told;  // Ghost: the latest end that a call was told.
bool back;

#ifdef NO_VERSION
#define AS_READ(v_) true
#else
#define AS_READ(v_) (version == v_)
#endif
#ifdef EXPIRE_BY_READ
#define IS_DUE true
#else
#define IS_DUE (at <= now)
#endif

inline Check() { assert(state != HELD || told <= at) }
inline Tell(end_) {
  told = (end_ > told -> end_ : told);
  Check()
}

proctype Extender(byte until) {
  byte seen_at, seen_version;
  do
  :: d_step { state == HELD && now < at -> seen_at = at; seen_version = version };  // Reads.
     if
     :: d_step { until <= seen_at -> Tell(seen_at) } -> break
     :: else ->
        if
        :: d_step { state == HELD && now < at && AS_READ(seen_version) ->
             at = until; version++; Tell(until) } -> break
        :: d_step { else -> seen_at = 0; seen_version = 0 }  // Something has changed: it reads again.
        fi
     fi
  :: d_step { !(state == HELD && now < at) -> skip } -> break  // Refused, or the order expires first.
  od
}

active proctype Upkeep() {
  byte seen_version;
end:
  do
  :: d_step { state == HELD && at <= now -> seen_version = version };
     if
     :: d_step { state == HELD && IS_DUE && AS_READ(seen_version) ->
          assert(at <= now); state = EXPIRED; version++ }
     :: d_step { else -> seen_version = 0 }
     fi
  od
}

active proctype World() {
end:
  do
  :: d_step { now < 4 -> now++ }
  :: d_step { now > 0 && !back -> now--; back = true }
  :: d_step { state == HELD && now < at -> state = SOLD; version++ }
  od
}

init {
  atomic { run Extender(2); run Extender(3); run Extender(3) }
}
