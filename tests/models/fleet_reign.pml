// The reigns of the fleet cache: failovers, servers that lost their state, and processes that return to an old server.
// One key.
//
// Process  a process with a first level: it adopts a reign, sends heartbeats, asks, loads, fills, invalidates, and
//          reconnects to either server at any time.
// Other    another process, which adopts, invalidates and fills, and has no first level.
// Servers  server 0 is the master, and server 1 replicates it late. At any time server 1 is promoted, perhaps without
//          the newest writes. Server 0 then refuses writes, because it was demoted, or because it is isolated and has
//          min-replicas-to-write; it still answers reads. Values and leases are lost at any time, and LOSSES times the
//          state. FAILBACK: server 0 becomes the master once more, with its old state.
//
// A reign has a random incarnation, and the list of those before it. A process takes the reign of a server only if the
// server's run id is the one of the reign, and the process does not know that the reign is over. It knows that of the
// reigns that it has left, and of those before the ones that it has taken. Otherwise it makes a new reign. Each command
// names the server and the incarnation that it is for.
//
// Invariants. A call of the process gets a value that is at least as new as each of these invalidations, on either
// server, even if a failover has lost them:
//  - those that were accepted max_staleness before the call began;
//  - those that were accepted before a heartbeat ran that gives the process its trust, or gave it before;
//  - those that the process made.
// Each failover and each loss of the state begins one reign at most. No ask waits for a lease of another reign.
//
// With FAILBACK, server 1 has replicated only the beginning of the first reign, and a process that was never at server
// 1 cannot know the invalidations that server 1 alone accepted. So accepted invalidations are counted per server then,
// and the first of the three is left out.
//
// Abstracted. fleet_cache.pml has time (max_staleness is one step here), joins, and loads without a lease; those are as
// new as their beginning, so they need no step here. An invalidation removes the value and the lease; fleet_lease.pml
// has tags, tokens and repeats.
//
// CODECS: the process has a codec that the other does not have, and registers it in the state of a reign.
//
// Broken: KEEP_REIGN (the run id is not compared), NOT_BOUND (commands do not name their server), ANY_INCARNATION
// (scripts do not compare the incarnation), ANY_VALUE (they do not compare that of a value), ANY_LEASE (they do not
// compare that of a lease), NO_LIST (a process takes each reign; with FAILBACK), ONLY_LEFT (a process refuses only
// reigns that it has left; with FAILBACK), ADOPT_BLIND (a process takes no reign), NO_RESET (the first level is kept in
// a new reign), RESET_KEEPS_FLIGHT (a flight of a former reign is stored), OLD_BEAT (a heartbeat of a former reign
// gives trust), BEAT_READS (a heartbeat does not write), HIT_WITHOUT_TRUST (a call is served from Redis although the
// process has no trust), ISOLATED_WRITES (an isolated master takes writes), UNREGISTERED (scripts do not ask whether a
// codec is registered).

#ifndef WRITES
#define WRITES 1
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif

mtype = { idle, asked, loading, filled };

byte db;

typedef Server {
  byte incarnation;  // 0: there is no state.
  byte older;   // The set of incarnations before it.
  byte server;  // Of the reign: its run id.
  byte q;
  bool registered;
  byte value;
  byte value_of;  // An incarnation.
  bool lease;     // Of the process's flight.
  byte lease_of;
}
Server servers[2];
byte master;
bool promoted;
byte incarnations = 1;

// A process's reign, as it knows it.
typedef Reign {
  byte incarnation;
  byte server;
}
Reign reign, other;
byte connected, other_connected;

// The process.
Reign adopted;  // The answer of adopt, on its way. An incarnation of 0: none.
byte adopted_older;
byte adopted_q;
byte left, other_left;  // The incarnations that the two know to be over.
byte applied;
bool trusted;
byte first;  // The first level.

byte beat_of;  // The incarnation of a heartbeat whose answer is on its way.
byte beat_q;
bool beat_late;

mtype flight = idle;
bool detached;
byte flight_value;
byte flight_q;
byte flight_of;
byte flight_server;

// Ghosts.
byte accepted[2];
byte beat_accepted;
byte seen;
byte floor;
byte due;
byte reigns_allowed = 1;
byte losses;
#ifdef FAILBACK
bool returned;
#endif

#define MAX(a, b) (a > b -> a : b)

#ifdef ISOLATED_WRITES
#define WRITABLE(s) (s == master || s == 0)
#define BEGIN (incarnations < 4)  // A process that goes to and fro between two masters begins reign after reign.
#else
#define WRITABLE(s) (s == master)
#define BEGIN true
#endif

// Whether the server `s` runs a command of the reign `i` of the server `of`.
#ifdef NOT_BOUND
#define BOUND(s, of) true
#else
#define BOUND(s, of) (s == of)
#endif
#ifdef ANY_INCARNATION
#define SAME(s, i) true
#else
#define SAME(s, i) (servers[s].incarnation == i)
#endif
#define RUNS(s, i, of) (i != 0 && BOUND(s, of) && SAME(s, i))
#define ADOPTED RUNS(connected, reign.incarnation, reign.server)
#define OTHER_ADOPTED RUNS(other_connected, other.incarnation, other.server)

#ifdef ANY_VALUE
#define VALID(s) (servers[s].value != 0)
#else
#define VALID(s) (servers[s].value != 0 && servers[s].value_of == servers[s].incarnation)
#endif
#ifdef ANY_LEASE
#define LEASED(s) servers[s].lease
#else
#define LEASED(s) (servers[s].lease && servers[s].lease_of == servers[s].incarnation)
#endif

#ifdef KEEP_REIGN
#define OF_SERVER(s) true
#else
#define OF_SERVER(s) (servers[s].server == s)
#endif
#if defined(NO_LIST)
#define TAKES(s, over) true
#elif defined(ADOPT_BLIND)
#define TAKES(s, over) false
#else
#define TAKES(s, over) (((over >> servers[s].incarnation) & 1) == 0)
#endif

#ifdef CODECS
#define OTHER_FILLS false
#define REMOVED(s) servers[s].registered
#else
#define OTHER_FILLS true
#define REMOVED(s) true
#endif
#if defined(CODECS) && !defined(UNREGISTERED)
#define REGISTERED(s) servers[s].registered
#else
#define REGISTERED(s) true
#endif

#ifdef HIT_WITHOUT_TRUST
#define HIT_COUNTS true
#else
#define HIT_COUNTS trusted
#endif

// The scripts.
inline Adopt(s, over, to) {
  if
  :: servers[s].incarnation != 0 && OF_SERVER(s) && TAKES(s, over)
  :: else ->
     incarnations++;
#ifndef ISOLATED_WRITES
     assert(incarnations <= reigns_allowed);
#endif
#ifndef ONLY_LEFT
     servers[s].older = servers[s].older | (1 << servers[s].incarnation);
#endif
     servers[s].incarnation = incarnations;
     servers[s].server = s;
     servers[s].q = 1;
     servers[s].registered = false
  fi;
  to.incarnation = servers[s].incarnation;
  to.server = s
}

inline EndLease(s) {
  servers[s].lease = false;
  servers[s].lease_of = 0
}

inline DropValue(s) {
  servers[s].value = 0;
  servers[s].value_of = 0
}

inline Store(s, x) {
  assert(x > accepted[s]);
  servers[s].value = x;
  servers[s].value_of = servers[s].incarnation;
  EndLease(s)
}

inline Invalidate(s) {
  db++;
  servers[s].q++;
  accepted[s] = db;
  if
  :: REMOVED(s) -> DropValue(s); EndLease(s)
  :: else
  fi
}

inline EndFlight() {
  flight = idle;
  detached = false;
  flight_value = 0;
  flight_q = 0;
  flight_of = 0;
  flight_server = 0;
  floor = 0
}

inline EndBeat() {
  beat_of = 0;
  beat_q = 0;
  beat_late = false;
  beat_accepted = 0
}

inline Clear() {
  first = 0;
  detached = (flight != idle)
}

inline OnReset() {
#ifndef NO_RESET
  first = 0;
#endif
#ifndef RESET_KEEPS_FLIGHT
  detached = (flight != idle)
#else
  skip
#endif
}

inline TakeReign() {
  if
  :: adopted.incarnation != reign.incarnation ->
     trusted = false;
     OnReset();
     left = left | (1 << reign.incarnation) | adopted_older;
     reign.incarnation = adopted.incarnation;
     applied = adopted_q
  :: else
  fi;
  reign.server = adopted.server;
  adopted.incarnation = 0;
  adopted.server = 0;
  adopted_older = 0;
  adopted_q = 0
}

#ifdef OLD_BEAT
#define BEAT_COUNTS true
#else
#define BEAT_COUNTS (beat_of == reign.incarnation)
#endif

inline Apply() {
  if
  :: BEAT_COUNTS ->
     if
     :: applied < beat_q ->
        applied = beat_q;
        first = 0;
        detached = (flight != idle && (detached || flight_q < applied))
     :: else
     fi;
     if
     :: !beat_late -> trusted = true; seen = MAX(seen, beat_accepted)
     :: else
     fi
  :: else
  fi;
  EndBeat()
}

inline Ask() {
  floor = MAX(seen, due);
  if
  :: VALID(connected) ->
     flight_value = servers[connected].value;
     flight = asked
  :: !VALID(connected) && !LEASED(connected) && WRITABLE(connected) ->
     servers[connected].lease = true;
     servers[connected].lease_of = servers[connected].incarnation;
     flight = loading
  :: !VALID(connected) && LEASED(connected) -> assert(servers[connected].lease_of == servers[connected].incarnation)
  :: !VALID(connected) && !LEASED(connected) && !WRITABLE(connected)
  fi;
  if
  :: flight != idle ->
     flight_q = servers[connected].q;
     flight_of = reign.incarnation;
     flight_server = connected
  :: else -> floor = 0
  fi
}

inline Fill() {
  if
  :: RUNS(connected, flight_of, flight_server) && WRITABLE(connected) && REGISTERED(connected) && LEASED(connected) ->
     Store(connected, flight_value);
     flight_q = servers[connected].q;
     flight = filled
  :: else -> EndFlight()
  fi
}

inline Publish() {
  assert(flight_value > floor);
  first = (detached -> first : flight_value);
  EndFlight()
}

proctype Process() {
end:
  do
  :: atomic { connected = 1 - connected }
  :: atomic {
       !ADOPTED && WRITABLE(connected) && adopted.incarnation == 0 && BEGIN ->
       Adopt(connected, left, adopted);
       adopted_older = servers[connected].older;
       adopted_q = servers[connected].q
     }
  :: atomic { adopted.incarnation != 0 -> TakeReign() }
#ifdef BEAT_READS
  :: atomic {
       ADOPTED && beat_of == 0 ->
#else
  :: atomic {
       ADOPTED && WRITABLE(connected) && beat_of == 0 ->
#endif
       beat_of = reign.incarnation;
       beat_q = servers[connected].q;
       beat_accepted = accepted[connected]
     }
  :: atomic { beat_of != 0 -> Apply() }
  :: atomic { beat_of != 0 -> EndBeat() }
  :: atomic { first != 0 && trusted -> assert(first > seen && first > due) }
  :: atomic { flight == idle && ADOPTED && REGISTERED(connected) -> Ask() }
  :: atomic {
       flight == asked ->
       if
       :: HIT_COUNTS && !detached -> Publish()
       :: else -> EndFlight()  // The call loads without a lease.
       fi
     }
  :: atomic { flight == loading && flight_value == 0 -> flight_value = db + 1 }
  :: atomic { flight == loading && flight_value != 0 -> Fill() }
  :: atomic { flight == filled -> Publish() }
  :: atomic { db < WRITES && ADOPTED && WRITABLE(connected) -> Invalidate(connected); Clear(); seen = db }
#ifdef CODECS
  :: atomic { ADOPTED && WRITABLE(connected) && !servers[connected].registered -> servers[connected].registered = true }
#endif
  od
}

proctype Other() {
  byte was;
end:
  do
  :: atomic { other_connected = 1 - other_connected }
  :: atomic {
       !OTHER_ADOPTED && WRITABLE(other_connected) && BEGIN ->
       was = other.incarnation;
       Adopt(other_connected, other_left, other);
       if
       :: other.incarnation != was -> other_left = other_left | (1 << was) | servers[other_connected].older
       :: else
       fi;
       was = 0
     }
  :: atomic { db < WRITES && OTHER_ADOPTED && WRITABLE(other_connected) -> Invalidate(other_connected) }
  :: atomic {
       OTHER_FILLS && OTHER_ADOPTED && WRITABLE(other_connected) &&
         !VALID(other_connected) && !LEASED(other_connected) ->
       Store(other_connected, db + 1)
     }
  od
}

inline Copy(to, from) {
  to.incarnation = from.incarnation;
  to.older = from.older;
  to.server = from.server;
  to.q = from.q;
  to.registered = from.registered;
  to.value = from.value;
  to.value_of = from.value_of;
  to.lease = from.lease;
  to.lease_of = from.lease_of
}

inline Elapse() {
  trusted = false;
  beat_late = (beat_of != 0);
#ifndef FAILBACK
  due = MAX(accepted[0], accepted[1])
#endif
}

proctype Servers() {
end:
  do
  :: atomic { true -> Elapse() }
#if FAILOVERS
#ifndef FAILBACK
  :: atomic { !promoted -> Copy(servers[1], servers[0]) }
#endif
  :: atomic {
       !promoted ->
       promoted = true;
       master = 1;
       reigns_allowed++;
       accepted[1] = accepted[0]
     }
#endif
#ifdef FAILBACK
  :: atomic { master == 1 && !returned -> returned = true; master = 0; reigns_allowed++ }
#endif
  :: atomic { servers[master].lease -> EndLease(master) }
  :: atomic { servers[master].value != 0 -> DropValue(master) }
#if LOSSES
  :: atomic {
       losses < LOSSES && servers[master].incarnation != 0 ->
       losses++;
       reigns_allowed++;
       servers[master].incarnation = 0;
       servers[master].older = 0;
       servers[master].server = 0;
       servers[master].q = 0;
       servers[master].registered = false
     }
#endif
  od
}

init {
  atomic {
    servers[0].incarnation = 1;
    servers[0].q = 1;
    Copy(servers[1], servers[0]);
    run Process();
    run Other();
    run Servers()
  }
}
